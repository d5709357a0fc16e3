/**
 * Decodes JSON bodies: large ones on a separate thread, so that the server's thread stays responsive.
 *
 * @module
 */
import { trimEndingThread } from "../../../base/libc.ts";
import {
  decodeWritten,
  type FromJsonThread,
  keepAllWritten,
  type ToJsonThread,
} from "./decode_json.ts";

/** The largest body that is decoded on the server's thread, in a few milliseconds. */
const MAX_OWN_BYTES = 256 * 1024;

/** When an idle thread is ended. It holds some 10 MiB, and starts in tens of milliseconds. */
const IDLE_MS = 20_000;

/** The decoding thread, started for a large body and ended when there has been none for a while. */
let thread: JsonThread | undefined;

/** Decodes a body. The bytes are transferred. @throws {SyntaxError} with the reason. */
export async function decodeBody(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
  if (bytes.length <= MAX_OWN_BYTES) return keepAllWritten(decodeWritten(bytes));
  thread ??= new JsonThread(() => thread = undefined);
  return await thread.decode(bytes);
}

class JsonThread {
  readonly #worker = new Worker(new URL("./json_thread.ts", import.meta.url), { type: "module" });
  /** Pending requests by id. */
  readonly #rejects = new Set<(error: Error) => void>();
  readonly #onEnd: () => void;
  #idle: ReturnType<typeof setTimeout> | undefined;

  /** @param onEnd called when the thread has died or was ended. */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
    this.#worker.onerror = (event) => {
      event.preventDefault();
      onEnd();
      const error = new Error(`The thread that decodes JSON died: ${event.message}`);
      for (const reject of this.#rejects) reject(error);
    };
  }

  async decode(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
    const { port1, port2 } = new MessageChannel();
    const { promise, resolve, reject } = Promise.withResolvers<FromJsonThread>();
    clearTimeout(this.#idle);
    this.#rejects.add(reject);
    port1.onmessage = ({ data }) => resolve(data);
    const message: ToJsonThread = { bytes, port: port2 };
    this.#worker.postMessage(message, [bytes.buffer, port2]);
    try {
      const answer = await promise;
      if ("why" in answer) throw new SyntaxError(answer.why);
      return keepAllWritten(answer);
    } finally {
      port1.close();
      this.#rejects.delete(reject);
      if (this.#rejects.size === 0) this.#endWhenIdle();
    }
  }

  #endWhenIdle(): void {
    this.#idle = setTimeout(() => {
      trimEndingThread();
      this.#worker.terminate();
      this.#onEnd();
    }, IDLE_MS);
    this.#idle.unref();
  }
}
