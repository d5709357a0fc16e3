/**
 * Random numbers from a seed, fast enough for hundreds of millions of weights.
 *
 * @module
 */

/** Marsaglia's xorshift32. Equal seeds give equal streams. */
export class Random {
  #state: number;

  /** @param seed not 0. */
  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** Random bytes, all equally likely. */
  bytes(length: number): Uint8Array<ArrayBuffer> {
    const words = new Uint32Array(Math.ceil(length / 4));
    let x = this.#state;
    for (let i = 0; i < words.length; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      words[i] = x;
    }
    this.#state = x;
    return new Uint8Array(words.buffer, 0, length);
  }

  /** Uniform values from `low` to `high`. */
  floats(
    length: number,
    { low, high }: { readonly low: number; readonly high: number },
  ): Float32Array<ArrayBuffer> {
    const values = new Float32Array(length);
    const scale = (high - low) / 2 ** 32;
    let x = this.#state;
    for (let i = 0; i < length; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      values[i] = low + (x >>> 0) * scale;
    }
    this.#state = x;
    return values;
  }

  /** Uniform values with a mean of 0. */
  spread(length: number, deviation: number): Float32Array<ArrayBuffer> {
    const high = deviation * Math.sqrt(3);
    return this.floats(length, { low: -high, high });
  }
}
