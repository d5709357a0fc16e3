/**
 * A connection until its first bytes.
 *
 * Many never send any: scanners, clients that open connections ahead, floods. A read that waits costs at most half of a
 * socket that `node:http` listens to, and the client's end closes the connection without an end of ours before it.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { TcpSocket, type TcpSocketOptions, turns } from "./tcp_socket.ts";

/** Size of the first read: there may be many requests in it, and many new connections. */
const FIRST_READ_BYTES = 1024;

export class SilentConnection {
  readonly #connection: Deno.TcpConn;
  readonly #first: Promise<Uint8Array | null>;
  readonly #onClose: () => void;
  #isOpen = true;

  /** @param onClose called when it closes before it has become a socket. */
  constructor(connection: Deno.TcpConn, onClose: () => void) {
    this.#connection = connection;
    this.#onClose = onClose;
    this.#first = this.#read();
  }

  /** Waits for its first bytes; it closes if there are none. @returns whether it may become a socket. */
  async speaks(): Promise<boolean> {
    try {
      if (await this.#first === null) this.destroy();
    } catch {
      this.destroy();
    }
    return this.#isOpen;
  }

  /** Becomes a socket, which reads what was read here, or is still waited for. */
  toSocket(options: Omit<TcpSocketOptions, "first">): TcpSocket {
    this.#isOpen = false;
    return new TcpSocket(this.#connection, { ...options, first: this.#first });
  }

  /** Closes it, unless it has become a socket. */
  destroy(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#connection.close();
    this.#onClose();
  }

  async #read(): Promise<Uint8Array | null> {
    const bytes = Buffer.allocUnsafeSlow(FIRST_READ_BYTES);
    const count = await this.#connection.read(bytes);
    if (count === null) return null;
    const turn = turns.take(count);
    if (turn !== undefined) await turn;
    return bytes.subarray(0, count);
  }
}
