/**
 * Samples small planes at the pixels of a larger image.
 *
 * @module
 */
import type { Plane } from "./plane.ts";

interface Size {
  readonly width: number;
  readonly height: number;
}

/** For each pixel of a long axis, the pixel of the short one before it, the one after it, and how far it is between. */
interface Neighbours {
  readonly before: Int32Array;
  readonly after: Int32Array;
  readonly share: Float64Array;
}

/** Bilinear, with aligned corners. Move it, then read any number of planes. */
export class PlaneSampler {
  readonly #width: number;
  readonly #columns: Neighbours;
  readonly #rows: Neighbours;
  #left = 0;
  #right = 0;
  #top = 0;
  #bottom = 0;
  #across = 0;
  #down = 0;

  /** @param sizes.small of the planes. @param sizes.large of the image. */
  constructor({ small, large }: { readonly small: Size; readonly large: Size }) {
    this.#width = small.width;
    this.#columns = findNeighbours(small.width, large.width);
    this.#rows = findNeighbours(small.height, large.height);
  }

  /** Moves to a pixel of the image. */
  moveTo(x: number, y: number): void {
    this.#left = this.#columns.before[x]!;
    this.#right = this.#columns.after[x]!;
    this.#across = this.#columns.share[x]!;
    this.#top = this.#rows.before[y]! * this.#width;
    this.#bottom = this.#rows.after[y]! * this.#width;
    this.#down = this.#rows.share[y]!;
  }

  /** The value of a plane there. */
  read({ data }: Plane): number {
    const above = mix(data[this.#top + this.#left]!, data[this.#top + this.#right]!, this.#across);
    const below = mix(
      data[this.#bottom + this.#left]!,
      data[this.#bottom + this.#right]!,
      this.#across,
    );
    return mix(above, below, this.#down);
  }
}

function mix(a: number, b: number, share: number): number {
  return a + (b - a) * share;
}

function findNeighbours(small: number, large: number): Neighbours {
  const before = new Int32Array(large);
  const after = new Int32Array(large);
  const share = new Float64Array(large);
  for (let i = 0; i < large; i++) {
    const position = Math.min(small - 1, Math.max(0, (i + 0.5) * small / large - 0.5));
    before[i] = Math.floor(position);
    after[i] = Math.min(small - 1, before[i]! + 1);
    share[i] = position - before[i]!;
  }
  return { before, after, share };
}
