/**
 * Decodes JSON bodies, large ones on a thread of their own: meanwhile the server's thread answers others.
 *
 * @module
 */
import { decodeJson } from "./decode_json.ts";
import type { FromJsonThread, ToJsonThread } from "./json_message.ts";

/** Decoding so much takes a few milliseconds. */
const MAX_OWN_BYTES = 256 * 1024;

/** Started with the first large body, and kept. */
let thread: JsonThread | undefined;

/**
 * The value of a body; its bytes are gone after it.
 *
 * @throws {SyntaxError} that says why there is none.
 */
export async function decodeBody(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
  if (bytes.length <= MAX_OWN_BYTES) return decodeJson(bytes);
  thread ??= new JsonThread(() => thread = undefined);
  return await thread.decode(bytes);
}

class JsonThread {
  readonly #worker = new Worker(new URL("./json_thread.ts", import.meta.url), { type: "module" });
  /** Of those who wait for an answer. */
  readonly #rejects = new Set<(error: Error) => void>();

  /** @param onDeath the thread decodes nothing more. */
  constructor(onDeath: () => void) {
    this.#worker.onerror = (event) => {
      event.preventDefault();
      onDeath();
      const error = new Error(`The thread that decodes JSON died: ${event.message}`);
      for (const reject of this.#rejects) reject(error);
    };
  }

  async decode(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
    const { port1, port2 } = new MessageChannel();
    const { promise, resolve, reject } = Promise.withResolvers<FromJsonThread>();
    this.#rejects.add(reject);
    port1.onmessage = ({ data }) => resolve(data);
    const message: ToJsonThread = { bytes, port: port2 };
    this.#worker.postMessage(message, [bytes.buffer, port2]);
    try {
      const answer = await promise;
      if ("why" in answer) throw new SyntaxError(answer.why);
      return answer.value;
    } finally {
      port1.close();
      this.#rejects.delete(reject);
    }
  }
}
