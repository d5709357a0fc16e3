/**
 * Reads small planes at the places of a larger picture's pixels.
 *
 * @module
 */
import type { Plane } from "./resample.ts";

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Bilinear, with the corners of both sizes in the same places. Move it, then read any number of planes. */
export class PlaneSampler {
  readonly #small: Size;
  readonly #large: Size;
  readonly #at = new Int32Array(4);
  readonly #weights = new Float64Array(4);

  /** @param sizes.small of the planes. @param sizes.large of the picture. */
  constructor({ small, large }: { readonly small: Size; readonly large: Size }) {
    this.#small = small;
    this.#large = large;
  }

  /** Goes to a pixel of the picture. */
  moveTo(x: number, y: number): void {
    const { width, height } = this.#small;
    const column = Math.min(width - 1, Math.max(0, (x + 0.5) * width / this.#large.width - 0.5));
    const row = Math.min(height - 1, Math.max(0, (y + 0.5) * height / this.#large.height - 0.5));
    const [left, top] = [Math.floor(column), Math.floor(row)];
    const right = Math.min(width - 1, left + 1);
    const bottom = Math.min(height - 1, top + 1);
    const [u, v] = [column - left, row - top];
    const [at, weights] = [this.#at, this.#weights];
    at[0] = top * width + left;
    at[1] = top * width + right;
    at[2] = bottom * width + left;
    at[3] = bottom * width + right;
    weights[0] = (1 - u) * (1 - v);
    weights[1] = u * (1 - v);
    weights[2] = (1 - u) * v;
    weights[3] = u * v;
  }

  /** The value of a plane there. */
  read({ data }: Plane): number {
    const [at, weights] = [this.#at, this.#weights];
    return data[at[0]!]! * weights[0]! + data[at[1]!]! * weights[1]! +
      data[at[2]!]! * weights[2]! + data[at[3]!]! * weights[3]!;
  }
}
