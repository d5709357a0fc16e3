/**
 * What crosses between the server's thread and the one that decodes JSON.
 *
 * @module
 */

/** A body to decode. */
export interface ToJsonThread {
  readonly id: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Its value, or why it has none. */
export type FromJsonThread =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly why: string };
