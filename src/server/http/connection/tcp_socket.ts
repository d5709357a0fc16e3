/**
 * A Deno connection as the duplex stream that `node:http` needs.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { BusyThread } from "../../../base/timing.ts";

// A budget shares the time of the event loop fairly among connections. In Deno 2.9, up to 128 reads in a row resolve
// without yielding to the event loop if their bytes have already arrived, and so do accepts. Without a budget, a few
// clients that send or connect as fast as they can would starve all others.

/** Maximum number of bytes read in one iteration of the event loop; handling them takes a fraction of a millisecond. */
export const BUDGET_BYTES = 64 * 1024;
/** Every read counts as at least this many bytes. */
const MIN_BYTES = 4 * 1024;
/**
 * Longest time for which the event loop may be busy without a pause. While every iteration has work to do, Deno's
 * runtime polls for new events only every 61 iterations (Tokio's event interval).
 */
const MAX_BUSY_MS = 20;

interface Waiting {
  readonly numBytes: number;
  readonly resolve: () => void;
}

/** The bytes that may still be read in the current iteration of the event loop. */
export class ReadBudget {
  #left = BUDGET_BYTES;
  #willRefill = false;
  readonly #thread = new BusyThread(MAX_BUSY_MS);
  readonly #waiting: Waiting[] = [];

  /**
   * Takes part of the budget. Small reads do not wait for large ones.
   *
   * @returns a promise to wait for, if too little of the budget is left in the current iteration.
   */
  take(count: number): Promise<void> | undefined {
    const numBytes = Math.max(MIN_BYTES, Math.min(count, BUDGET_BYTES));
    this.#refillLater();
    if (numBytes <= this.#left) {
      this.#left -= numBytes;
      return undefined;
    }
    return new Promise((resolve) => void this.#waiting.push({ numBytes, resolve }));
  }

  #refillLater(): void {
    if (this.#willRefill) return;
    this.#willRefill = true;
    void this.#thread.yield().then(() => {
      this.#willRefill = false;
      this.#left = BUDGET_BYTES;
      while (this.#waiting.length > 0 && this.#waiting[0]!.numBytes <= this.#left) {
        const { numBytes, resolve } = this.#waiting.shift()!;
        this.#left -= numBytes;
        resolve();
      }
      if (this.#left < BUDGET_BYTES) this.#refillLater();
    });
  }
}

/** Size of the buffer of an idle connection. */
const READ_BYTES = 4 * 1024;
/** Buffer size within a body that is not chunked, after a read that filled a small buffer. */
const MAX_READ_BYTES = BUDGET_BYTES;
/** Buffer size for a client that sends requests before earlier ones are answered: some ten requests fit. */
const MIN_READ_BYTES = 512;
/** How long to wait for a client to read anything. A stream that nobody reads takes up one of the model's sequences. */
const SEND_MS = 30_000;
/** Chunks that are written together are joined and sent in one call, up to this total size. */
const MAX_JOINED_BYTES = 64 * 1024;
/** Reading stops while more requests than this are unanswered. */
const MAX_UNANSWERED = 8;

/** The read budget of all connections together. */
export const readBudget = new ReadBudget();

type Done = (error?: Error | null) => void;

export interface TcpSocketOptions {
  /** The first read; `null` if the client has closed its end. */
  readonly first: Promise<Uint8Array | null>;
  /** How long a client stays connected without reading anything; 30 s if absent. */
  readonly sendMs?: number | undefined;
}

/** A socket with backpressure in both directions that may be half-open, like a socket of `node:net`. */
export class TcpSocket extends Duplex {
  readonly remoteAddress: string;
  readonly #connection: Deno.TcpConn;
  readonly #sendMs: number;
  #first: Promise<Uint8Array | null> | undefined;
  #readBytes = READ_BYTES;
  #maxReadBytes = MAX_READ_BYTES;
  /** Whether a few bytes may cause much work: one-byte chunks, or requests sent ahead of responses. */
  #isCostly = false;
  #numUnanswered = 0;
  /** A large buffer that can be reused, because the parser has copied what it held. */
  #spare: Buffer | undefined;
  #isHttp = true;
  #answered = Promise.withResolvers<void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(connection: Deno.TcpConn, { first, sendMs = SEND_MS }: TcpSocketOptions) {
    super();
    // Each request adds listeners. Node's warning about many listeners would block if nobody reads standard error.
    this.setMaxListeners(0);
    this.#connection = connection;
    this.#first = first;
    this.#sendMs = sendMs;
    this.remoteAddress = connection.remoteAddr.hostname;
    try {
      // Writes are already joined: Nagle's algorithm would only delay them.
      connection.setNoDelay();
    } catch {
      // macOS refuses this if the client is gone. The first read reports that.
    }
  }

  /**
   * Called when the headers of a request have been read.
   *
   * @param options.isChunked whether the body is chunked. A chunk may have a single byte, and parsing it costs
   * microseconds.
   */
  beginRequest({ isChunked }: { readonly isChunked: boolean }): void {
    const isAhead = this.#numUnanswered++ > 0;
    this.#isCostly = isChunked || isAhead;
    this.#maxReadBytes = isChunked ? READ_BYTES : MAX_READ_BYTES;
    this.#readBytes = isAhead ? MIN_READ_BYTES : READ_BYTES;
  }

  /**
   * Called when a request has been answered, or the client is gone.
   *
   * @returns how many requests are still unanswered.
   */
  endRequest(): number {
    this.#numUnanswered--;
    this.#answered.resolve();
    this.#answered = Promise.withResolvers();
    return this.#numUnanswered;
  }

  /** Called when the connection leaves HTTP. Buffers are no longer reused, because the new reader may keep them. */
  leaveHttp(): void {
    this.#isHttp = false;
  }

  /** Emits `timeout` after `ms`, unless it is called again before that. 0 turns it off. */
  setTimeout(ms: number): this {
    clearTimeout(this.#timer);
    this.#timer = ms > 0 ? setTimeout(() => this.emit("timeout"), ms) : undefined;
    return this;
  }

  /** Closes the connection once everything has been sent. */
  destroySoon(): void {
    if (this.writableFinished) return void this.destroy();
    this.once("finish", () => this.destroy());
    this.end();
  }

  override _read(): void {
    void (this.#first === undefined ? this.#readSome() : this.#readFirst(this.#first));
  }

  override _write(bytes: Uint8Array, _encoding: BufferEncoding, done: Done): void {
    void this.#send([bytes], done);
  }

  override _writev(writes: { readonly chunk: Uint8Array }[], done: Done): void {
    const chunks = writes.map(({ chunk }) => chunk);
    const numBytes = chunks.reduce((sum, { length }) => sum + length, 0);
    void this.#send(numBytes > MAX_JOINED_BYTES ? chunks : [Buffer.concat(chunks)], done);
  }

  override _final(done: Done): void {
    // If the client is gone, this fails, and there is nothing left to close.
    this.#connection.closeWrite().catch(() => {}).then(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#timer);
    this.#connection.close();
    done(error);
  }

  async #readFirst(first: Promise<Uint8Array | null>): Promise<void> {
    this.#first = undefined;
    try {
      const bytes = await first;
      if (!this.destroyed) this.push(bytes);
    } catch (error) {
      this.destroy(error as Error);
    }
  }

  async #readSome(): Promise<void> {
    while (this.#numUnanswered > MAX_UNANSWERED) await this.#answered.promise;
    const bytes = this.#spare?.length === this.#readBytes
      ? this.#spare
      : Buffer.allocUnsafeSlow(this.#readBytes);
    this.#spare = undefined;
    try {
      const count = await this.#connection.read(bytes);
      const wait = readBudget.take(this.#isCostly ? BUDGET_BYTES : count ?? 0);
      if (wait !== undefined) await wait;
      if (this.destroyed) return;
      // A read of fewer bytes probably ended the body, and the next request is small again.
      this.#readBytes = (count ?? 0) < READ_BYTES ? READ_BYTES : this.#maxReadBytes;
      this.push(count === null ? null : bytes.subarray(0, count));
      // Without reuse, a body would leave garbage of its own size. For a large body, collecting it takes longer than all
      // other work.
      const isTaken = this.#isHttp && this.readableLength === 0;
      if (isTaken && bytes.length === MAX_READ_BYTES) this.#spare = bytes;
    } catch (error) {
      this.destroy(error as Error);
    }
  }

  async #send(chunks: readonly Uint8Array[], done: Done): Promise<void> {
    try {
      for (const bytes of chunks) {
        for (let at = 0; at < bytes.length;) {
          at += await this.#write(bytes.subarray(at));
        }
      }
    } catch (error) {
      return done(error as Error);
    }
    done();
  }

  /** Writes bytes. @returns how many of them were sent. */
  async #write(bytes: Uint8Array): Promise<number> {
    const giveUp = () => this.destroy(new Error("the client does not read its response"));
    const timer = setTimeout(giveUp, this.#sendMs);
    try {
      return await this.#connection.write(bytes);
    } finally {
      clearTimeout(timer);
    }
  }
}
