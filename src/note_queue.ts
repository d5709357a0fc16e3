/**
 * Text for standard error that nobody waits for: a stalled reader delays only the text itself.
 *
 * @module
 */

const encoder = new TextEncoder();

/** Bytes of one write; a pipe takes 64 KiB on Linux. */
const MAX_WRITE_BYTES = 16 * 1024;

interface Target {
  write(bytes: Uint8Array): Promise<number>;
}

/** Capacity of a queue, and its message about dropped notes. */
interface NoteQueueOptions {
  /** Most bytes that may wait; further notes are dropped. */
  readonly maxBytes: number;
  /** What is written in place of dropped notes, once there is room again. */
  readonly formatDropped: (numNotes: number) => string;
}

/**
 * A bounded queue in front of a stream whose writes run on a thread of their own, as Deno's asynchronous ones do. Notes
 * are written in order; those that do not fit are dropped and counted.
 */
export class NoteQueue {
  readonly #target: Target;
  readonly #options: NoteQueueOptions;
  #waiting: Uint8Array[] = [];
  #numBytes = 0;
  #numUntold = 0;
  #numDropped = 0;
  #writing: Promise<void> | undefined;

  constructor(target: Target, options: NoteQueueOptions) {
    this.#target = target;
    this.#options = options;
  }

  /** Notes dropped so far. */
  get numDropped(): number {
    return this.#numDropped;
  }

  /** Writes `text` as soon as the stream takes it; never waits, never throws. */
  push(text: string): void {
    const bytes = encoder.encode(text);
    if (this.#numBytes + bytes.length > this.#options.maxBytes) {
      this.#numDropped++;
      this.#numUntold++;
      return;
    }
    this.#append(bytes);
    this.#writing ??= this.#write();
  }

  /** Waits until all notes have left, or `timeoutMs` have passed: to be called before the process ends. */
  async flush(timeoutMs: number): Promise<void> {
    const timeout = Promise.withResolvers<void>();
    const timer = setTimeout(timeout.resolve, timeoutMs);
    await Promise.race([this.#writing, timeout.promise]);
    clearTimeout(timer);
  }

  #append(bytes: Uint8Array): void {
    this.#waiting.push(bytes);
    this.#numBytes += bytes.length;
  }

  async #write(): Promise<void> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      await this.#writeNote(next);
      this.#waiting.shift();
      this.#numBytes -= next.length;
      if (this.#numUntold === 0 || this.#numBytes > this.#options.maxBytes / 2) continue;
      const numNotes = this.#numUntold;
      this.#numUntold = 0;
      this.#append(encoder.encode(this.#options.formatDropped(numNotes)));
    }
    this.#writing = undefined;
  }

  async #writeNote(bytes: Uint8Array): Promise<void> {
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
