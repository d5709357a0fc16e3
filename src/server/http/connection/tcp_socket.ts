/**
 * A connection of Deno's as the duplex stream that `node:http` works on.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { BusyThread } from "../../../base/yield_to_events.ts";

// Shares the turns of the event loop among connections, and with new ones. Reads of bytes that
// have arrived resolve without a turn of the loop, up to 128 in a row (Deno 2.9), and so do
// accepts: a few clients that send, or connect, as fast as they can would leave no time to the
// others.

/** Bytes that are read in a turn; handling them takes a fraction of a millisecond. */
export const TURN_BYTES = 64 * 1024;
/** What a read costs at least. */
const MIN_BYTES = 4 * 1024;
/**
 * Longest time without an idle moment. While every turn has work, connections that were waited for are looked at after
 * 61 turns only (the event interval of Tokio, which Deno runs on).
 */
const MAX_BUSY_MS = 20;

interface Waiting {
  readonly numBytes: number;
  readonly resolve: () => void;
}

/** What may be read in the current turn. */
export class ReadTurns {
  #left = TURN_BYTES;
  #hasNextTurn = false;
  readonly #thread = new BusyThread(MAX_BUSY_MS);
  readonly #waiting: Waiting[] = [];

  /**
   * Takes part of a turn; small reads do not wait for large ones.
   *
   * @returns what to wait for, if the current turn has too little left.
   */
  take(count: number): Promise<void> | undefined {
    const numBytes = Math.max(MIN_BYTES, Math.min(count, TURN_BYTES));
    this.#endTurn();
    if (numBytes <= this.#left) {
      this.#left -= numBytes;
      return undefined;
    }
    return new Promise((resolve) => void this.#waiting.push({ numBytes, resolve }));
  }

  #endTurn(): void {
    if (this.#hasNextTurn) return;
    this.#hasNextTurn = true;
    void this.#thread.yield().then(() => {
      this.#hasNextTurn = false;
      this.#left = TURN_BYTES;
      while (this.#waiting.length > 0 && this.#waiting[0]!.numBytes <= this.#left) {
        const { numBytes, resolve } = this.#waiting.shift()!;
        this.#left -= numBytes;
        resolve();
      }
      if (this.#left < TURN_BYTES) this.#endTurn();
    });
  }
}

/** Size of the buffer of an idle connection. */
const READ_BYTES = 4 * 1024;
/** Size within a body that is one piece, after a read that filled such a buffer. */
const MAX_READ_BYTES = TURN_BYTES;
/** Size where requests are sent before the last was answered: there may be ten in it. */
const MIN_READ_BYTES = 512;
/** Longest wait for a client to take something of what is sent to it. A stream that nobody reads holds a place. */
const SEND_MS = 30_000;
/** Up to this size, chunks written together are sent in one call. */
const MAX_JOINED_BYTES = 64 * 1024;
/** No more requests are read while more than this are unanswered. */
const MAX_UNANSWERED = 8;

/** Turns of all connections together. */
export const turns = new ReadTurns();

type Done = (error?: Error | null) => void;

/** How to read and send. */
export interface TcpSocketOptions {
  /** What is read first; `null` at the end. */
  readonly first: Promise<Uint8Array | null>;
  /** How long a client stays connected that takes nothing; 30 s if absent. */
  readonly sendMs?: number | undefined;
}

/** Has backpressure in both directions and allows half-open connections, as a socket of `node:net` does. */
export class TcpSocket extends Duplex {
  readonly remoteAddress: string;
  readonly #connection: Deno.TcpConn;
  readonly #sendMs: number;
  #first: Promise<Uint8Array | null> | undefined;
  #readBytes = READ_BYTES;
  #maxReadBytes = MAX_READ_BYTES;
  /** Whether a few bytes are much work: chunks of a byte, requests sent ahead. */
  #isCostly = false;
  #numUnanswered = 0;
  /** A large buffer whose bytes the parser has taken, and copied. */
  #spare: Buffer | undefined;
  #isHttp = true;
  #answered = Promise.withResolvers<void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(connection: Deno.TcpConn, { first, sendMs = SEND_MS }: TcpSocketOptions) {
    super();
    // Each request adds some. Node's warning would be written to standard error at once, whether it is read or not.
    this.setMaxListeners(0);
    this.#connection = connection;
    this.#first = first;
    this.#sendMs = sendMs;
    this.remoteAddress = connection.remoteAddr.hostname;
    try {
      // Writes are already joined: Nagle's algorithm would only delay them.
      connection.setNoDelay();
    } catch {
      // macOS refuses it for a client that has gone, which the first read reports.
    }
  }

  /**
   * The head of a request has been read from it.
   *
   * @param options.isChunked whether its body is in chunks; they may have a byte each, and each costs microseconds.
   */
  beginRequest({ isChunked }: { readonly isChunked: boolean }): void {
    const isAhead = this.#numUnanswered++ > 0;
    this.#isCostly = isChunked || isAhead;
    this.#maxReadBytes = isChunked ? READ_BYTES : MAX_READ_BYTES;
    this.#readBytes = isAhead ? MIN_READ_BYTES : READ_BYTES;
  }

  /** A request has been answered, or its client has gone. @returns how many of its requests are unanswered. */
  endRequest(): number {
    this.#numUnanswered--;
    this.#answered.resolve();
    this.#answered = Promise.withResolvers();
    return this.#numUnanswered;
  }

  /** The connection is no longer HTTP's: whoever reads it may keep what is read. */
  leaveHttp(): void {
    this.#isHttp = false;
  }

  /** Emits `timeout` after `ms`, unless called again before; never for 0. */
  setTimeout(ms: number): this {
    clearTimeout(this.#timer);
    this.#timer = ms > 0 ? setTimeout(() => this.emit("timeout"), ms) : undefined;
    return this;
  }

  /** Closes the connection once all is sent. */
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
    const pieces = writes.map(({ chunk }) => chunk);
    const numBytes = pieces.reduce((sum, { length }) => sum + length, 0);
    void this.#send(numBytes > MAX_JOINED_BYTES ? pieces : [Buffer.concat(pieces)], done);
  }

  override _final(done: Done): void {
    // It fails if the client has gone; nothing is left to close then.
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
      const turn = turns.take(this.#isCostly ? TURN_BYTES : count ?? 0);
      if (turn !== undefined) await turn;
      if (this.destroyed) return;
      // A body goes on as it began; a request after it is small again.
      this.#readBytes = (count ?? 0) < READ_BYTES ? READ_BYTES : this.#maxReadBytes;
      this.push(count === null ? null : bytes.subarray(0, count));
      // A large body would leave its own length of garbage, whose collection takes longer than all else.
      const isTaken = this.#isHttp && this.readableLength === 0;
      if (isTaken && bytes.length === MAX_READ_BYTES) this.#spare = bytes;
    } catch (error) {
      this.destroy(error as Error);
    }
  }

  async #send(pieces: readonly Uint8Array[], done: Done): Promise<void> {
    try {
      for (const bytes of pieces) {
        for (let at = 0; at < bytes.length;) {
          at += await this.#write(bytes.subarray(at));
        }
      }
    } catch (error) {
      return done(error as Error);
    }
    done();
  }

  /** @returns how many of the bytes were sent. */
  async #write(bytes: Uint8Array): Promise<number> {
    const giveUp = () => this.destroy(new Error("the client does not read"));
    const timer = setTimeout(giveUp, this.#sendMs);
    try {
      return await this.#connection.write(bytes);
    } finally {
      clearTimeout(timer);
    }
  }
}
