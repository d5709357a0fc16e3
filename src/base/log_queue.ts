/**
 * Text for standard error that nobody waits for: a stalled reader delays only the text itself.
 *
 * @module
 */

const encoder = new TextEncoder();

/** Bytes of one write; a pipe takes 64 KiB on Linux. */
const MAX_WRITE_BYTES = 16 * 1024;
/**
 * Log lines wait as bytes, in chunks of one write each: a buffer for each of thousands of short lines would take five
 * times the memory of their text, and a concatenated string three times.
 */
const CHUNK_LENGTH = MAX_WRITE_BYTES;

/** Lines that wait together. */
interface Chunk {
  readonly bytes: Uint8Array;
  /** Length in characters. */
  readonly length: number;
}

interface Target {
  write(bytes: Uint8Array): Promise<number>;
}

/** The capacity of a queue, and its message about dropped lines. */
interface LogQueueOptions {
  /** Most characters that may wait; further lines are dropped. */
  readonly maxLength: number;
  /** The line that is written in place of dropped ones once there is room again. */
  readonly formatDropped: (numLines: number) => string;
}

/**
 * A bounded queue in front of a stream whose writes run on a thread of their own, as Deno's asynchronous ones do. Lines
 * are written in order; those that do not fit are dropped and counted.
 */
export class LogQueue {
  readonly #target: Target;
  readonly #options: LogQueueOptions;
  readonly #chunks: Chunk[] = [];
  /** Lines after those chunks, which will become another chunk. */
  #last = "";
  /** Length of what has not been written. */
  #length = 0;
  #numUntold = 0;
  #numDropped = 0;
  #writing: Promise<void> | undefined;

  constructor(target: Target, options: LogQueueOptions) {
    this.#target = target;
    this.#options = options;
  }

  /** Lines dropped so far. */
  get numDropped(): number {
    return this.#numDropped;
  }

  /** Writes `text` as soon as the stream takes it; never waits, never throws. */
  push(text: string): void {
    if (this.#length + text.length > this.#options.maxLength) {
      this.#numDropped++;
      this.#numUntold++;
      return;
    }
    this.#append(text);
    this.#writing ??= this.#write();
  }

  /** Waits until all lines are written or `timeoutMs` have passed. To be called before the process ends. */
  async flush(timeoutMs: number): Promise<void> {
    const timeout = Promise.withResolvers<void>();
    const timer = setTimeout(timeout.resolve, timeoutMs);
    await Promise.race([this.#writing, timeout.promise]);
    clearTimeout(timer);
  }

  #append(text: string): void {
    if (this.#last !== "" && this.#last.length + text.length > CHUNK_LENGTH) this.#endChunk();
    this.#last += text;
    this.#length += text.length;
  }

  #endChunk(): void {
    this.#chunks.push({ bytes: encoder.encode(this.#last), length: this.#last.length });
    this.#last = "";
  }

  async #write(): Promise<void> {
    while (this.#length > 0) {
      if (this.#chunks.length === 0) this.#endChunk();
      const { bytes, length } = this.#chunks.shift()!;
      await this.#writePiece(bytes);
      this.#length -= length;
      if (this.#numUntold === 0 || this.#length > this.#options.maxLength / 2) continue;
      const numLines = this.#numUntold;
      this.#numUntold = 0;
      this.#append(this.#options.formatDropped(numLines));
    }
    this.#writing = undefined;
  }

  async #writePiece(bytes: Uint8Array): Promise<void> {
    let rest = bytes;
    try {
      while (rest.length > 0) {
        rest = rest.subarray(await this.#target.write(rest.subarray(0, MAX_WRITE_BYTES)));
      }
    } catch {
      // The reader has gone, or the disk is full: there is nowhere else to report it.
    }
  }
}
