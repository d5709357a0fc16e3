/**
 * Random access to an audio file's samples, in bounded memory.
 *
 * @module
 */
import { decodeAudio, type DecodeAudioOptions } from "./audio.ts";

/** Number of samples kept in memory: a quarter of an hour at 16 kHz, 58 MB. */
const KEPT_SAMPLES = 15 * 60 * 16_000;
const BLOCK_SAMPLES = 65_536;

/** How a file is read. */
interface AudioReaderOptions extends DecodeAudioOptions {
  /** Number of samples kept in memory between calls, rounded up to blocks of 65,536. */
  readonly keptSamples?: number;
}

/**
 * Reads a recording at any position. A recording that fits into the kept samples is decoded once. A longer one is
 * decoded again whenever a range before the kept samples is requested, so it is best read from start to end.
 */
export class AudioReader implements AsyncDisposable {
  readonly sampleRateHz: number;
  readonly #file: Uint8Array<ArrayBuffer>;
  readonly #options: AudioReaderOptions;
  readonly #maxBlocks: number;
  #decoding: AsyncGenerator<Float32Array, void> | undefined;
  /** Kept blocks; all but the last are full. */
  #blocks: Float32Array[] = [];
  /** Number of blocks dropped before the kept ones. */
  #numDropped = 0;
  /** Samples decoded so far. */
  #end = 0;
  #length: number | undefined;
  #truncated: string | undefined;

  constructor(file: Uint8Array<ArrayBuffer>, options: AudioReaderOptions) {
    this.sampleRateHz = options.sampleRateHz;
    this.#file = file;
    this.#options = options;
    this.#maxBlocks = Math.ceil((options.keptSamples ?? KEPT_SAMPLES) / BLOCK_SAMPLES);
  }

  /** A sentence that says what is missing, if the file ends early; known after the whole file is decoded. */
  get truncated(): string | undefined {
    return this.#truncated;
  }

  /**
   * Decodes the whole file, which verifies it and measures its length.
   *
   * @param visit receives all samples, chunk by chunk, and must not keep them.
   * @returns the number of samples, at least one.
   * @throws {HearthError} `invalid_media`, as {@linkcode decodeAudio}.
   * @throws the signal's reason.
   */
  async scan(visit?: (samples: Float32Array) => Promise<void>): Promise<number> {
    if (this.#numDropped > 0) await this.#rewind();
    for (const [index, block] of [...this.#blocks].entries()) {
      await visit?.(block.subarray(0, this.#end - index * BLOCK_SAMPLES));
    }
    for (let chunk = await this.#next(); chunk !== undefined; chunk = await this.#next()) {
      this.#keepFrom(Infinity);
      await visit?.(chunk);
    }
    return this.#length!;
  }

  /**
   * Reads samples from `start` to before `end`, fewer if the recording ends.
   *
   * @returns f32, a copy for the caller.
   */
  async read(start: number, end: number): Promise<Float32Array> {
    if (start < this.#numDropped * BLOCK_SAMPLES) await this.#rewind();
    while (this.#end < end && await this.#next() !== undefined) this.#keepFrom(start);
    const samples = new Float32Array(Math.max(0, Math.min(end, this.#end) - start));
    for (let at = start; at < start + samples.length;) {
      const block = this.#blocks[Math.floor(at / BLOCK_SAMPLES) - this.#numDropped]!;
      const from = at % BLOCK_SAMPLES;
      const chunk = block.subarray(from, from + start + samples.length - at);
      samples.set(chunk, at - start);
      at += chunk.length;
    }
    return samples;
  }

  /** Frees the decoder and the kept samples. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#decoding?.return();
    this.#decoding = undefined;
    this.#blocks = [];
  }

  /** Decodes the next chunk into the blocks; `undefined` at the end. */
  async #next(): Promise<Float32Array | undefined> {
    if (this.#end === this.#length) return undefined;
    this.#decoding ??= decodeAudio(this.#file, {
      ...this.#options,
      onTruncated: (message) => this.#truncated = message,
    });
    const { done, value } = await this.#decoding.next();
    if (done) {
      this.#length = this.#end;
      return undefined;
    }
    for (let at = 0; at < value.length;) {
      if (this.#end % BLOCK_SAMPLES === 0) this.#blocks.push(new Float32Array(BLOCK_SAMPLES));
      const from = this.#end % BLOCK_SAMPLES;
      const part = value.subarray(at, at + BLOCK_SAMPLES - from);
      this.#blocks.at(-1)!.set(part, from);
      at += part.length;
      this.#end += part.length;
    }
    return value;
  }

  /** Drops blocks that exceed the limit and lie before `start`. */
  #keepFrom(start: number): void {
    while (
      this.#blocks.length > this.#maxBlocks && (this.#numDropped + 1) * BLOCK_SAMPLES <= start
    ) {
      this.#blocks.shift();
      this.#numDropped++;
    }
  }

  async #rewind(): Promise<void> {
    await this[Symbol.asyncDispose]();
    this.#numDropped = 0;
    this.#end = 0;
  }
}
