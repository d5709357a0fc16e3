/**
 * The discrete Fourier transform, for sizes with no prime factors but 2 and 5.
 *
 * It uses Stockham's algorithm: each pass removes one factor from the size and leaves its results in order, so no
 * permutation is needed.
 *
 * @module
 */

/** Complex numbers as a structure of arrays. */
interface ComplexArray {
  readonly re: Float64Array;
  readonly im: Float64Array;
}

/** A pass over all numbers, for one factor. */
interface Pass {
  readonly run: (pass: Pass) => void;
  readonly from: ComplexArray;
  readonly to: ComplexArray;
  /** The pass has `groups` times `stride` butterflies. The butterflies of a group share their twiddle factors. */
  readonly groups: number;
  readonly stride: number;
  /** `e^(-2πi group j / (groups radix))` at `group (radix - 1) + j - 1`, for `1 ≤ j < radix`. */
  readonly cos: Float64Array;
  readonly sin: Float64Array;
}

/** A transform of one size, with its working memory. */
export class Fft {
  readonly size: number;
  /** Input of {@linkcode transform}, which overwrites it. */
  readonly input: ComplexArray;
  /** Output of {@linkcode transform}. */
  readonly output: ComplexArray;
  readonly #passes: readonly Pass[];

  /** @throws {RangeError} when `size` has a prime factor other than 2 and 5. */
  constructor(size: number) {
    this.size = size;
    this.input = makeComplexArray(size);
    const other = makeComplexArray(size);
    const passes: Pass[] = [];
    let from = this.input;
    let stride = 1;
    for (const radix of factorize(size)) {
      const to = from === other ? this.input : other;
      const groups = size / stride / radix;
      passes.push({
        run: BUTTERFLIES[radix],
        from,
        to,
        groups,
        stride,
        ...makeTwiddles(groups, radix),
      });
      stride *= radix;
      from = to;
    }
    this.#passes = passes;
    this.output = from;
  }

  /** `output[k] = Σ input[n] e^(-2πi nk / size)`. */
  transform(): void {
    for (const pass of this.#passes) pass.run(pass);
  }
}

function makeComplexArray(size: number): ComplexArray {
  return { re: new Float64Array(size), im: new Float64Array(size) };
}

type Radix = keyof typeof BUTTERFLIES;

function factorize(size: number): Radix[] {
  const factors: Radix[] = [];
  let rest = size;
  for (const radix of [5, 4, 2] as const) {
    while (rest > 1 && rest % radix === 0) {
      factors.push(radix);
      rest /= radix;
    }
  }
  if (rest !== 1) {
    throw new RangeError(
      `A Fourier transform of size ${size} is not supported: a size has no prime factors but 2 and 5.`,
    );
  }
  return factors;
}

function makeTwiddles(groups: number, radix: number): Pick<Pass, "cos" | "sin"> {
  const angles = Float64Array.from(
    { length: groups * (radix - 1) },
    (_, i) => -2 * Math.PI * Math.floor(i / (radix - 1)) * (i % (radix - 1) + 1) / (groups * radix),
  );
  return { cos: angles.map(Math.cos), sin: angles.map(Math.sin) };
}

const BUTTERFLIES = { 2: runRadix2, 4: runRadix4, 5: runRadix5 } as const;

function runRadix2({ from, to, groups, stride, cos, sin }: Pass): void {
  const { re: xr, im: xi } = from;
  const { re: yr, im: yi } = to;
  const half = groups * stride;
  for (let group = 0; group < groups; group++) {
    const c = cos[group]!;
    const s = sin[group]!;
    let x = group * stride;
    let y = group * stride * 2;
    for (let i = 0; i < stride; i++, x++, y++) {
      const ar = xr[x]!, ai = xi[x]!, br = xr[x + half]!, bi = xi[x + half]!;
      const dr = ar - br, di = ai - bi;
      yr[y] = ar + br;
      yi[y] = ai + bi;
      yr[y + stride] = dr * c - di * s;
      yi[y + stride] = dr * s + di * c;
    }
  }
}

function runRadix4({ from, to, groups, stride, cos, sin }: Pass): void {
  const { re: xr, im: xi } = from;
  const { re: yr, im: yi } = to;
  const quarter = groups * stride;
  for (let group = 0; group < groups; group++) {
    const t = group * 3;
    const c1 = cos[t]!, c2 = cos[t + 1]!, c3 = cos[t + 2]!;
    const s1 = sin[t]!, s2 = sin[t + 1]!, s3 = sin[t + 2]!;
    let x0 = group * stride;
    let y = group * stride * 4;
    for (let i = 0; i < stride; i++, x0++, y++) {
      const x1 = x0 + quarter, x2 = x1 + quarter, x3 = x2 + quarter;
      const evenR = xr[x0]! + xr[x2]!, evenI = xi[x0]! + xi[x2]!;
      const oddR = xr[x1]! + xr[x3]!, oddI = xi[x1]! + xi[x3]!;
      const p = xr[x0]! - xr[x2]!, q = xi[x0]! - xi[x2]!;
      const u = xr[x1]! - xr[x3]!, v = xi[x1]! - xi[x3]!;
      yr[y] = evenR + oddR;
      yi[y] = evenI + oddI;
      const ar = p + v, ai = q - u;
      yr[y + stride] = ar * c1 - ai * s1;
      yi[y + stride] = ar * s1 + ai * c1;
      const br = evenR - oddR, bi = evenI - oddI;
      yr[y + stride * 2] = br * c2 - bi * s2;
      yi[y + stride * 2] = br * s2 + bi * c2;
      const dr = p - v, di = q + u;
      yr[y + stride * 3] = dr * c3 - di * s3;
      yi[y + stride * 3] = dr * s3 + di * c3;
    }
  }
}

const COS_1 = Math.cos(2 * Math.PI / 5);
const COS_2 = Math.cos(4 * Math.PI / 5);
const SIN_1 = Math.sin(2 * Math.PI / 5);
const SIN_2 = Math.sin(4 * Math.PI / 5);

function runRadix5({ from, to, groups, stride, cos, sin }: Pass): void {
  const { re: xr, im: xi } = from;
  const { re: yr, im: yi } = to;
  const fifth = groups * stride;
  for (let group = 0; group < groups; group++) {
    const t = group * 4;
    const c1 = cos[t]!, c2 = cos[t + 1]!, c3 = cos[t + 2]!, c4 = cos[t + 3]!;
    const s1 = sin[t]!, s2 = sin[t + 1]!, s3 = sin[t + 2]!, s4 = sin[t + 3]!;
    let x0 = group * stride;
    let y = group * stride * 5;
    for (let i = 0; i < stride; i++, x0++, y++) {
      const x1 = x0 + fifth, x2 = x1 + fifth, x3 = x2 + fifth, x4 = x3 + fifth;
      const zr = xr[x0]!, zi = xi[x0]!;
      // Sums and differences of the conjugate pairs (1, 4) and (2, 3).
      const ar = xr[x1]! + xr[x4]!, ai = xi[x1]! + xi[x4]!;
      const br = xr[x2]! + xr[x3]!, bi = xi[x2]! + xi[x3]!;
      const dr = xr[x1]! - xr[x4]!, di = xi[x1]! - xi[x4]!;
      const er = xr[x2]! - xr[x3]!, ei = xi[x2]! - xi[x3]!;
      yr[y] = zr + ar + br;
      yi[y] = zi + ai + bi;
      const pr = zr + COS_1 * ar + COS_2 * br, pi = zi + COS_1 * ai + COS_2 * bi;
      const qr = zr + COS_2 * ar + COS_1 * br, qi = zi + COS_2 * ai + COS_1 * bi;
      const ur = SIN_1 * di + SIN_2 * ei, ui = SIN_1 * dr + SIN_2 * er;
      const vr = SIN_2 * di - SIN_1 * ei, vi = SIN_2 * dr - SIN_1 * er;
      let r = pr + ur, m = pi - ui;
      yr[y + stride] = r * c1 - m * s1;
      yi[y + stride] = r * s1 + m * c1;
      r = qr + vr, m = qi - vi;
      yr[y + stride * 2] = r * c2 - m * s2;
      yi[y + stride * 2] = r * s2 + m * c2;
      r = qr - vr, m = qi + vi;
      yr[y + stride * 3] = r * c3 - m * s3;
      yi[y + stride * 3] = r * s3 + m * c3;
      r = pr - ur, m = pi + ui;
      yr[y + stride * 4] = r * c4 - m * s4;
      yi[y + stride * 4] = r * s4 + m * c4;
    }
  }
}

/** The modified Bessel function of the first kind, of order 0, from which Kaiser windows are computed. */
export function bessel(x: number): number {
  let sum = 1;
  for (let term = 1, k = 1; term > 1e-17 * sum; k++) {
    term *= (x / 2 / k) ** 2;
    sum += term;
  }
  return sum;
}
