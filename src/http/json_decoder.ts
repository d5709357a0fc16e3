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

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

class JsonThread {
  readonly #worker = new Worker(new URL("./json_thread.ts", import.meta.url), { type: "module" });
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  /** @param onDeath the thread decodes nothing more. */
  constructor(onDeath: () => void) {
    this.#worker.onmessage = ({ data }: MessageEvent<FromJsonThread>) => {
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if ("why" in data) waiting?.reject(new SyntaxError(data.why));
      else waiting?.resolve(data.value);
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      onDeath();
      const error = new Error(`The thread that decodes JSON died: ${event.message}`);
      for (const { reject } of this.#waiting.values()) reject(error);
    };
  }

  decode(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const id = ++this.#lastId;
    this.#waiting.set(id, { resolve, reject });
    const message: ToJsonThread = { id, bytes };
    this.#worker.postMessage(message, [bytes.buffer]);
    return promise;
  }
}
