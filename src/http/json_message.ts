/**
 * What crosses between the server's thread and the one that decodes JSON.
 *
 * @module
 */

/** A body to decode. */
export interface ToJsonThread {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /**
   * For the answer alone: of what comes from a thread itself Deno holds the bytes of the largest, which may be a hundred
   * megabytes, as long as the thread lives.
   */
  readonly port: MessagePort;
}

/** Its value, or why it has none. */
export type FromJsonThread = { readonly value: unknown } | { readonly why: string };
