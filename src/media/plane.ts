/**
 * One channel of floats.
 *
 * @module
 */

/** Such as a mask; rows from the top, values from the left. */
export interface Plane {
  readonly width: number;
  readonly height: number;
  /** f32 `[height, width]`. */
  readonly data: Float32Array<ArrayBuffer>;
}
