/**
 * The thread that decodes large JSON bodies.
 *
 * @module
 */
import { collectGarbageLater } from "../../../base/memory.ts";
import { decodeWritten, type FromJsonThread, type ToJsonThread } from "./decode_json.ts";

const scope = globalThis as unknown as {
  onmessage: ((event: MessageEvent<ToJsonThread>) => void) | null;
};

scope.onmessage = ({ data: { bytes, port } }) => {
  const answer = (message: FromJsonThread) => port.postMessage(message);
  try {
    answer(decodeWritten(bytes));
  } catch (error) {
    answer({ why: (error as Error).message });
  }
  port.close();
  collectGarbageLater();
};
