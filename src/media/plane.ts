/**
 * One channel of floats: means over squares, interpolation at the pixels of a larger image, and the guided filter.
 *
 * @module
 */

/** A channel such as a mask: rows from the top, values from the left. */
export interface Plane {
  readonly width: number;
  readonly height: number;
  /** f32 `[height, width]`. */
  readonly data: Float32Array<ArrayBuffer>;
}

/**
 * Replaces each pixel with the mean of all pixels at most `radius` away along either axis. The cost does not depend on
 * the radius. The result is a new plane.
 */
export function computeBoxMeans(plane: Plane, radius: number): Plane {
  return averageColumns(averageRows(plane, radius), radius);
}

/** Computes means along rows. The sum of a window is computed from the sum of the previous one. */
function averageRows({ width, height, data }: Plane, radius: number): Plane {
  const means = new Float32Array(data.length);
  for (let y = 0; y < height; y++) {
    const start = y * width;
    let sum = 0;
    for (let x = 0; x < Math.min(radius, width); x++) sum += data[start + x]!;
    for (let x = 0; x < width; x++) {
      if (x + radius < width) sum += data[start + x + radius]!;
      if (x > radius) sum -= data[start + x - radius - 1]!;
      means[start + x] = sum / countWithin(x, width, radius);
    }
  }
  return { width, height, data: means };
}

/** Computes means along columns, all columns side by side so that memory is read in order. */
function averageColumns({ width, height, data }: Plane, radius: number): Plane {
  const means = new Float32Array(data.length);
  const sums = new Float64Array(width);
  const add = (row: number, sign: number) => {
    for (let x = 0, at = row * width; x < width; x++, at++) sums[x]! += sign * data[at]!;
  };
  for (let y = 0; y < Math.min(radius, height); y++) add(y, 1);
  for (let y = 0; y < height; y++) {
    if (y + radius < height) add(y + radius, 1);
    if (y > radius) add(y - radius - 1, -1);
    const share = 1 / countWithin(y, height, radius);
    for (let x = 0, at = y * width; x < width; x++, at++) means[at] = sums[x]! * share;
  }
  return { width, height, data: means };
}

/** Number of positions of a line that are at most `radius` away from `position`. */
function countWithin(position: number, length: number, radius: number): number {
  return Math.min(length - 1, position + radius) - Math.max(0, position - radius) + 1;
}

type Size = Pick<Plane, "width" | "height">;

/**
 * For each pixel of a long axis, the pixels of the short axis before and after it, and its position between these two,
 * from 0 to 1.
 */
interface Neighbours {
  readonly before: Int32Array;
  readonly after: Int32Array;
  readonly share: Float64Array;
}

/**
 * Interpolates planes bilinearly; the edges of the planes and of the image coincide, not the centres of their corner
 * pixels. Move the sampler to a pixel, then read any number of planes.
 */
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

  /**
   * @param sizes.small size of the planes.
   * @param sizes.large size of the image.
   */
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

  /** The value of a plane at the current pixel. */
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

/** Planes of red, green and blue, 0 to 1. */
export type ColorPlanes = readonly [Plane, Plane, Plane];

/** Coefficients per pixel: the filtered plane at colour (r, g, b) is `factors · (r, g, b) + constant`. */
interface LinearModel {
  readonly factors: ColorPlanes;
  readonly constant: Plane;
}

/**
 * Fits a plane to an image of the same size: the guided filter. Within each square window, the plane is approximated by
 * the linear function of the image's colours that fits it best. So the result can have an edge where the image has one,
 * and is smooth where the image is even. The coefficients may be enlarged and applied to a larger version of the image:
 * the result then follows the details of that version.
 *
 * @see K. He, J. Sun, X. Tang: Guided Image Filtering, TPAMI 2013
 * @see K. He, J. Sun: Fast Guided Filter, 2015, arXiv:1505.00996
 * @param options.radius of the windows, in pixels.
 * @param options.epsilon variance of colour below which a window counts as even.
 */
export function fitToGuide(
  guide: ColorPlanes,
  plane: Plane,
  { radius, epsilon }: { readonly radius: number; readonly epsilon: number },
): LinearModel {
  const mean = (each: Plane) => computeBoxMeans(each, radius);
  const means = guide.map(mean) as unknown as ColorPlanes;
  const planeMean = mean(plane);
  const covariance = (i: number, j: number) =>
    subtractProduct(mean(multiply(guide[i]!, guide[j]!)), means[i]!, means[j]!);
  const [rr, rg, rb] = [covariance(0, 0), covariance(0, 1), covariance(0, 2)];
  const [gg, gb, bb] = [covariance(1, 1), covariance(1, 2), covariance(2, 2)];
  const withPlane = guide.map((color, i) =>
    subtractProduct(mean(multiply(color, plane)), means[i]!, planeMean)
  );
  const factors = guide.map(() => emptyLike(plane)) as unknown as ColorPlanes;
  const constant = emptyLike(plane);
  for (let i = 0; i < plane.data.length; i++) {
    const fitted = solveSymmetric(
      [
        rr.data[i]! + epsilon,
        rg.data[i]!,
        rb.data[i]!,
        gg.data[i]! + epsilon,
        gb.data[i]!,
        bb.data[i]! + epsilon,
      ],
      [withPlane[0]!.data[i]!, withPlane[1]!.data[i]!, withPlane[2]!.data[i]!],
    );
    let rest = planeMean.data[i]!;
    fitted.forEach((factor, c) => {
      factors[c]!.data[i] = factor;
      rest -= factor * means[c]!.data[i]!;
    });
    constant.data[i] = rest;
  }
  return { factors: factors.map(mean) as unknown as ColorPlanes, constant: mean(constant) };
}

type Triple = readonly [number, number, number];

/** Solves `M x = v` for a symmetric matrix M, given as its upper triangle, row by row. */
function solveSymmetric(
  [a, b, c, d, e, f]: readonly [number, number, number, number, number, number],
  [x, y, z]: Triple,
): Triple {
  const [aa, ab, ac] = [d * f - e * e, c * e - b * f, b * e - c * d];
  const [bb, bc, cc] = [a * f - c * c, b * c - a * e, a * d - b * b];
  const scale = 1 / (a * aa + b * ab + c * ac);
  return [
    (aa * x + ab * y + ac * z) * scale,
    (ab * x + bb * y + bc * z) * scale,
    (ac * x + bc * y + cc * z) * scale,
  ];
}

function emptyLike({ width, height }: Plane): Plane {
  return { width, height, data: new Float32Array(width * height) };
}

function multiply(a: Plane, b: Plane): Plane {
  const product = emptyLike(a);
  for (let i = 0; i < product.data.length; i++) product.data[i] = a.data[i]! * b.data[i]!;
  return product;
}

function subtractProduct(from: Plane, a: Plane, b: Plane): Plane {
  const rest = emptyLike(from);
  for (let i = 0; i < rest.data.length; i++) rest.data[i] = from.data[i]! - a.data[i]! * b.data[i]!;
  return rest;
}
