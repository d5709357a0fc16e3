/**
 * The power spectrum of windowed real samples.
 *
 * @module
 */
import { Fft } from "../../src/media/fft.ts";

/**
 * `power[k] = |Σ window[n] x[n] e^(-2πi nk / size)|²` for `0 ≤ k ≤ size / 2`.
 *
 * Even samples become the real parts and odd samples the imaginary parts of `size / 2` complex numbers. Their transform
 * `Z` contains both halves: with `E[k] = (Z[k] + Z*[-k]) / 2` and `O[k] = (Z[k] - Z*[-k]) / 2i`, `X[k] = E[k] + w^k
 * O[k]`.
 */
export class PowerSpectrum {
  /** f64 `[size / 2 + 1]`, the result of the last call. */
  readonly power: Float64Array;
  readonly #window: Float64Array;
  readonly #fft: Fft;
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;

  /**
   * @param window has the length of the transform.
   * @throws {RangeError} when the size is odd, or half of it has a prime factor other than 2 and 5.
   */
  constructor(window: Float64Array) {
    const half = window.length / 2;
    if (!Number.isInteger(half)) {
      throw new RangeError(
        `A window of ${window.length} samples was given; an even number is wanted.`,
      );
    }
    this.#window = window;
    this.#fft = new Fft(half);
    this.power = new Float64Array(half + 1);
    const angles = Float64Array.from({ length: half / 2 + 1 }, (_, k) => -Math.PI * k / half);
    this.#cos = angles.map(Math.cos);
    this.#sin = angles.map(Math.sin);
  }

  /** Fills {@linkcode power} from the samples beginning at `start`; those past their end are 0. */
  compute(samples: Float32Array, start: number): void {
    this.#load(samples, start);
    this.#fft.transform();
    const { re, im } = this.#fft.output;
    const { power } = this;
    const half = this.#fft.size;
    power[0] = (re[0]! + im[0]!) ** 2;
    power[half] = (re[0]! - im[0]!) ** 2;
    for (let k = 1, mirror = half - 1; k <= mirror; k++, mirror--) {
      const evenR = re[k]! + re[mirror]!, evenI = im[k]! - im[mirror]!;
      const oddR = im[k]! + im[mirror]!, oddI = re[mirror]! - re[k]!;
      const rotatedR = oddR * this.#cos[k]! - oddI * this.#sin[k]!;
      const rotatedI = oddR * this.#sin[k]! + oddI * this.#cos[k]!;
      power[k] = ((evenR + rotatedR) ** 2 + (evenI + rotatedI) ** 2) / 4;
      power[mirror] = ((evenR - rotatedR) ** 2 + (evenI - rotatedI) ** 2) / 4;
    }
  }

  #load(samples: Float32Array, start: number): void {
    const { re, im } = this.#fft.input;
    const window = this.#window;
    const size = Math.min(window.length, samples.length - start);
    for (let i = 0; i + 1 < size; i += 2) {
      re[i >> 1] = samples[start + i]! * window[i]!;
      im[i >> 1] = samples[start + i + 1]! * window[i + 1]!;
    }
    if (size === window.length) return;
    const rest = Math.max(0, size);
    re.fill(0, rest >> 1);
    im.fill(0, rest >> 1);
    if (rest % 2 === 1) re[rest >> 1] = samples[start + rest - 1]! * window[rest - 1]!;
  }
}
