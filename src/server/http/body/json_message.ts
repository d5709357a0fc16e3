/**
 * Messages between the server's thread and the one that decodes JSON.
 *
 * @module
 */

import type { DecodedJson } from "./decode_json.ts";

/** A body to decode. */
export interface ToJsonThread {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /**
   * A port for one answer: for messages on a worker itself Deno keeps a buffer of the largest one, perhaps a hundred
   * megabytes, as long as the worker lives.
   */
  readonly port: MessagePort;
}

/** Its value, or the error. */
export type FromJsonThread = DecodedJson | { readonly why: string };
