/**
 * A connection of Deno's as the duplex stream that `node:http` works on.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";

/** Size of the buffer of an idle connection. */
const READ_BYTES = 4 * 1024;
/** Size after a read that filled such a buffer. */
const MAX_READ_BYTES = 64 * 1024;
/** Longest wait for a client to take something of what is sent to it. A stream that nobody reads holds a place. */
const SEND_MS = 30_000;
/** Up to this size, chunks written together are sent in one call. */
const MAX_JOINED_BYTES = 64 * 1024;

type Done = (error?: Error | null) => void;

/** Has backpressure in both directions and allows half-open connections, as a socket of `node:net` does. */
export class TcpSocket extends Duplex {
  readonly remoteAddress: string;
  readonly #connection: Deno.TcpConn;
  readonly #sendMs: number;
  #readBytes = READ_BYTES;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param options.sendMs until a client that takes nothing is disconnected; 30 s if absent. */
  constructor(
    connection: Deno.TcpConn,
    { sendMs = SEND_MS }: { sendMs?: number | undefined } = {},
  ) {
    super();
    this.#connection = connection;
    this.#sendMs = sendMs;
    this.remoteAddress = connection.remoteAddr.hostname;
    try {
      // Writes are already joined: Nagle's algorithm would only delay them.
      connection.setNoDelay();
    } catch {
      // macOS refuses it for a client that has gone, which the first read reports.
    }
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
    void this.#readSome();
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

  async #readSome(): Promise<void> {
    const bytes = Buffer.allocUnsafeSlow(this.#readBytes);
    try {
      const count = await this.#connection.read(bytes);
      if (this.destroyed) return;
      // A body goes on as it began; a request after it is small again.
      this.#readBytes = (count ?? 0) < READ_BYTES ? READ_BYTES : MAX_READ_BYTES;
      this.push(count === null ? null : bytes.subarray(0, count));
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
