/**
 * The guided filter: makes a plane follow the edges of an image.
 *
 * Within each square window, the plane is approximated by the linear function of the image's colours that fits it best.
 * So the result can have an edge where the image has one, and is smooth where the image is even.
 *
 * @see K. He, J. Sun, X. Tang: Guided Image Filtering, TPAMI 2013
 * @see K. He, J. Sun: Fast Guided Filter, 2015, arXiv:1505.00996
 * @module
 */
import { boxMean, type Plane } from "./plane.ts";

/** Planes of red, green and blue, 0 to 1. */
export type ColorPlanes = readonly [Plane, Plane, Plane];

/** Coefficients per pixel: the filtered plane at colour (r, g, b) is `factors · (r, g, b) + constant`. */
interface LinearModel {
  readonly factors: ColorPlanes;
  readonly constant: Plane;
}

/**
 * Fits a plane to an image of the same size. The result may be enlarged and applied to a larger version of the image,
 * whose details it then follows.
 *
 * @param options.radius of the windows, in pixels.
 * @param options.epsilon variance of colour below which a window counts as even.
 */
export function fitToGuide(
  guide: ColorPlanes,
  plane: Plane,
  { radius, epsilon }: { readonly radius: number; readonly epsilon: number },
): LinearModel {
  const mean = (each: Plane) => boxMean(each, radius);
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
