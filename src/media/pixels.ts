/**
 * A decoded image.
 *
 * @module
 */

/** What each pixel holds: grey, grey and alpha, RGB, or RGB and alpha. */
export type Channels = 1 | 2 | 3 | 4;

/** Rows from the top, pixels from the left, channels interleaved; alpha is straight, not premultiplied. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly channels: Channels;
  /** u8 `[height, width, channels]`. */
  readonly data: Uint8Array<ArrayBuffer>;
}
