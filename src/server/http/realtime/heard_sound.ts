/**
 * The audio of a session that has not been transcribed yet.
 *
 * @module
 */
import { LiveDecoder, type LiveFormat } from "../../../media/audio/stored_sound.ts";

/** Buffered audio in one format. Positions are in milliseconds since the session's first audio. */
export class HeardSound {
  readonly format: LiveFormat;
  readonly #decoder: LiveDecoder;
  readonly #offsetMs: number;
  #chunks: Int16Array<ArrayBuffer>[] = [];
  /** Indexes of the first buffered sample, and of the sample after the last. */
  #start = 0;
  #end = 0;

  /** @param options.startMs position at which the audio in this format begins. */
  constructor(format: LiveFormat, { startMs }: { readonly startMs: number }) {
    this.format = format;
    this.#decoder = new LiveDecoder(format);
    this.#offsetMs = startMs;
  }

  /** Position at which the buffered audio begins. */
  get startMs(): number {
    return this.#offsetMs + this.#start / this.#samplesPerMs;
  }

  get endMs(): number {
    return this.#offsetMs + this.#end / this.#samplesPerMs;
  }

  /** Duration of the buffered audio. */
  get durationMs(): number {
    return (this.#end - this.#start) / this.#samplesPerMs;
  }

  /** Bytes of the buffered samples. */
  get numBytes(): number {
    return (this.#end - this.#start) * Int16Array.BYTES_PER_ELEMENT;
  }

  /** Decodes bytes into samples, without buffering these. */
  decode(bytes: Uint8Array): Int16Array<ArrayBuffer> {
    return this.#decoder.push(bytes);
  }

  push(samples: Int16Array<ArrayBuffer>): void {
    this.#chunks.push(samples);
    this.#end += samples.length;
  }

  /** Copies the audio from a position to the end. */
  copyFrom(ms: number): Int16Array<ArrayBuffer> {
    const from = this.#indexAt(ms) - this.#start;
    const samples = new Int16Array(this.#end - this.#start - from);
    let at = -from;
    for (const chunk of this.#chunks) {
      if (at + chunk.length > 0) samples.set(chunk.subarray(Math.max(0, -at)), Math.max(0, at));
      at += chunk.length;
    }
    return samples;
  }

  /** Removes and returns the audio up to a position. */
  takeTo(ms: number): Int16Array<ArrayBuffer> {
    const taken = new Int16Array(this.#indexAt(ms) - this.#start);
    for (let at = 0; at < taken.length;) {
      const chunk = this.#chunks[0]!;
      const part = chunk.subarray(0, taken.length - at);
      taken.set(part, at);
      at += part.length;
      this.#drop(part.length);
    }
    return taken;
  }

  /** Drops the audio before a position. */
  dropTo(ms: number): void {
    for (let left = this.#indexAt(ms) - this.#start; left > 0;) {
      const length = Math.min(left, this.#chunks[0]!.length);
      left -= length;
      this.#drop(length);
    }
  }

  /** Drops samples from the first chunk. */
  #drop(length: number): void {
    const chunk = this.#chunks.shift()!;
    if (length < chunk.length) this.#chunks.unshift(chunk.subarray(length));
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
