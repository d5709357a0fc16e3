/**
 * The thread that decodes large JSON bodies.
 *
 * @module
 */
import { decodeJson } from "./decode_json.ts";
import type { FromJsonThread, ToJsonThread } from "./json_message.ts";

const scope = globalThis as unknown as {
  postMessage(message: FromJsonThread): void;
  onmessage: ((event: MessageEvent<ToJsonThread>) => void) | null;
};

scope.onmessage = ({ data: { id, bytes } }) => {
  try {
    scope.postMessage({ id, value: decodeJson(bytes) });
  } catch (error) {
    scope.postMessage({ id, why: (error as Error).message });
  }
};
