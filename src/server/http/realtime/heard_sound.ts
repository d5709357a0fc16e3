/**
 * The sound of a session that has not been transcribed.
 *
 * @module
 */
import { LiveDecoder, type LiveFormat } from "../../../media/audio/live_sound.ts";

/** Positions are in milliseconds since the session's first sound. */
export class HeardSound {
  readonly format: LiveFormat;
  readonly #decoder: LiveDecoder;
  readonly #offsetMs: number;
  #pieces: Int16Array<ArrayBuffer>[] = [];
  /** Samples before the pieces, and with them. */
  #start = 0;
  #end = 0;

  /** @param options.startMs where the sound of this format begins. */
  constructor(format: LiveFormat, { startMs }: { readonly startMs: number }) {
    this.format = format;
    this.#decoder = new LiveDecoder(format);
    this.#offsetMs = startMs;
  }

  /** Where the sound that is held begins. */
  get startMs(): number {
    return this.#offsetMs + this.#start / this.#samplesPerMs;
  }

  get endMs(): number {
    return this.#offsetMs + this.#end / this.#samplesPerMs;
  }

  /** How much is held. */
  get durationMs(): number {
    return (this.#end - this.#start) / this.#samplesPerMs;
  }

  /** Of its samples. */
  get numBytes(): number {
    return (this.#end - this.#start) * Int16Array.BYTES_PER_ELEMENT;
  }

  /** Decodes bytes, which are still to be pushed. */
  decode(bytes: Uint8Array): Int16Array<ArrayBuffer> {
    return this.#decoder.push(bytes);
  }

  push(samples: Int16Array<ArrayBuffer>): void {
    this.#pieces.push(samples);
    this.#end += samples.length;
  }

  /** The sound from a position on, which is still held. */
  copyFrom(ms: number): Int16Array<ArrayBuffer> {
    const from = this.#indexAt(ms) - this.#start;
    const samples = new Int16Array(this.#end - this.#start - from);
    let at = -from;
    for (const piece of this.#pieces) {
      if (at + piece.length > 0) samples.set(piece.subarray(Math.max(0, -at)), Math.max(0, at));
      at += piece.length;
    }
    return samples;
  }

  /** Takes the sound up to a position; what is before it is held no more. */
  takeTo(ms: number): Int16Array<ArrayBuffer> {
    const taken = new Int16Array(this.#indexAt(ms) - this.#start);
    for (let at = 0; at < taken.length;) {
      const piece = this.#pieces[0]!;
      const part = piece.subarray(0, taken.length - at);
      taken.set(part, at);
      at += part.length;
      this.#drop(part.length);
    }
    return taken;
  }

  /** Holds nothing before a position any more. */
  dropTo(ms: number): void {
    for (let left = this.#indexAt(ms) - this.#start; left > 0;) {
      const length = Math.min(left, this.#pieces[0]!.length);
      left -= length;
      this.#drop(length);
    }
  }

  /** Samples of the first piece. */
  #drop(length: number): void {
    const piece = this.#pieces.shift()!;
    if (length < piece.length) this.#pieces.unshift(piece.subarray(length));
    this.#start += length;
  }

  #indexAt(ms: number): number {
    const index = Math.round((ms - this.#offsetMs) * this.#samplesPerMs);
    return Math.max(this.#start, Math.min(this.#end, index));
  }

  get #samplesPerMs(): number {
    return this.format.sampleRateHz / 1000;
  }
}
