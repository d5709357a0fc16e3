/**
 * Turns coefficients into samples: temporal noise shaping, inverse transform, windows and overlap (ISO/IEC
 * 14496-3, sections 4.6.9 and 4.6.11).
 *
 * @module
 */
import { bessel, Fft } from "../../fft.ts";
import { SEQUENCE, type WindowLayout } from "./tables.ts";
import type { BitReader } from "../../file_bytes.ts";

const LONG = 1024;
const SHORT = 128;
const NUM_SHORT_WINDOWS = 8;
/** Number of samples before the first and after the last short window of a frame. */
const MARGIN = (LONG - SHORT) / 2;

/** Makes the rising halves of the windows of one length, one for each shape. */
function makeSlopes(
  size: number,
  alpha: number,
): readonly [sine: Float64Array, kaiser: Float64Array] {
  const sine = Float64Array.from(
    { length: size },
    (_, n) => Math.sin(Math.PI / 2 * (n + 0.5) / size),
  );
  const weights = Float64Array.from(
    { length: size + 1 },
    (_, n) => bessel(Math.PI * alpha * Math.sqrt(1 - (2 * n / size - 1) ** 2)),
  );
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let sum = 0;
  const kaiser = Float64Array.from(
    { length: size },
    (_, n) => Math.sqrt((sum += weights[n]!) / total),
  );
  return [sine, kaiser];
}

const LONG_SLOPES = makeSlopes(LONG, 4);
const SHORT_SLOPES = makeSlopes(SHORT, 6);

/** The filter bank of one channel. It keeps the second half of each frame to overlap with the next. */
export class Filterbank {
  readonly #long = new Imdct(LONG);
  readonly #short = new Imdct(SHORT);
  readonly #samples = new Float64Array(2 * LONG);
  readonly #shortSamples = new Float64Array(2 * SHORT);
  readonly #overlap = new Float64Array(LONG);
  #lastShape = 0;

  /** @returns the 1024 samples that this frame completes. */
  transform(spectrum: Float64Array, layout: WindowLayout): Float32Array<ArrayBuffer> {
    if (layout.sequence === SEQUENCE.short) this.#transformShort(spectrum, layout.shape);
    else this.#transformLong(spectrum, layout);
    this.#lastShape = layout.shape;
    const output = new Float32Array(LONG);
    for (let n = 0; n < LONG; n++) output[n] = this.#overlap[n]! + this.#samples[n]!;
    this.#overlap.set(this.#samples.subarray(LONG));
    return output;
  }

  #transformLong(spectrum: Float64Array, { sequence, shape }: WindowLayout): void {
    const samples = this.#samples;
    this.#long.transform(spectrum, samples);
    const rising = samples.subarray(0, LONG);
    const falling = samples.subarray(LONG).reverse();
    if (sequence === SEQUENCE.stop) applyShortSlope(rising, this.#lastShape);
    else applySlope(rising, LONG_SLOPES[this.#lastShape]!);
    if (sequence === SEQUENCE.start) applyShortSlope(falling, shape);
    else applySlope(falling, LONG_SLOPES[shape]!);
    falling.reverse();
  }

  #transformShort(spectrum: Float64Array, shape: number): void {
    const samples = this.#shortSamples;
    this.#samples.fill(0);
    for (let window = 0; window < NUM_SHORT_WINDOWS; window++) {
      this.#short.transform(spectrum.subarray(window * SHORT, (window + 1) * SHORT), samples);
      const rising = SHORT_SLOPES[window === 0 ? this.#lastShape : shape]!;
      const falling = SHORT_SLOPES[shape]!;
      const start = MARGIN + window * SHORT;
      for (let n = 0; n < SHORT; n++) {
        this.#samples[start + n]! += samples[n]! * rising[n]!;
        this.#samples[start + SHORT + n]! += samples[SHORT + n]! * falling[SHORT - 1 - n]!;
      }
    }
  }
}

function applySlope(half: Float64Array, slope: Float64Array): void {
  for (let n = 0; n < half.length; n++) half[n]! *= slope[n]!;
}

/** Applies the slope of a long window next to short ones: first silence, then a short slope, then 1. */
function applyShortSlope(half: Float64Array, shape: number): void {
  half.fill(0, 0, MARGIN);
  applySlope(half.subarray(MARGIN, MARGIN + SHORT), SHORT_SLOPES[shape]!);
}

/**
 * The inverse modified discrete cosine transform: `size` coefficients become `2 size` samples, half of which overlap
 * with the frame before and half with the next.
 */
class Imdct {
  readonly size: number;
  readonly #fft: Fft;
  /** Output of the discrete cosine transform of type IV. */
  readonly #dct: Float64Array;
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;

  constructor(size: number) {
    this.size = size;
    this.#fft = new Fft(size / 2);
    this.#dct = new Float64Array(size);
    const angles = Float64Array.from({ length: size / 2 }, (_, n) => -Math.PI * (n + 1 / 8) / size);
    this.#cos = angles.map(Math.cos);
    this.#sin = angles.map(Math.sin);
  }

  /** `output[n] = 1/size Σ spectrum[k] cos(π/size (n + 1/2 + size/2)(k + 1/2))`. */
  transform(spectrum: Float64Array, output: Float64Array): void {
    this.#transformDct(spectrum);
    const { size } = this;
    const dct = this.#dct;
    const half = size / 2;
    for (let n = 0; n < half; n++) {
      output[n] = dct[half + n]!;
      output[half + n] = -dct[size - 1 - n]!;
      output[size + n] = -dct[half - 1 - n]!;
      output[size + half + n] = -dct[n]!;
    }
  }

  #transformDct(spectrum: Float64Array): void {
    const { size } = this;
    const { input, output } = this.#fft;
    for (let n = 0; n < size / 2; n++) {
      const re = spectrum[2 * n]!;
      const im = spectrum[size - 1 - 2 * n]!;
      input.re[n] = re * this.#cos[n]! - im * this.#sin[n]!;
      input.im[n] = re * this.#sin[n]! + im * this.#cos[n]!;
    }
    this.#fft.transform();
    for (let k = 0; k < size / 2; k++) {
      const re = output.re[k]! / size;
      const im = output.im[k]! / size;
      this.#dct[2 * k] = re * this.#cos[k]! - im * this.#sin[k]!;
      this.#dct[size - 1 - 2 * k] = -(re * this.#sin[k]! + im * this.#cos[k]!);
    }
  }
}

/** A filter over some bands of one window. */
export interface TnsFilter {
  readonly window: number;
  /** The filter covers the bands from `firstBand` to before `endBand`. */
  readonly firstBand: number;
  readonly endBand: number;
  readonly isDownward: boolean;
  /** Prediction coefficients, beginning with the nearest neighbour's. */
  readonly coefficients: Float64Array;
}

const MAX_ORDER = { long: 12, short: 7 } as const;

/** @throws {RangeError} when the bits end, or a filter is longer than the LC profile allows. */
export function readTns(bits: BitReader, layout: WindowLayout): TnsFilter[] {
  const isShort = layout.sequence === SEQUENCE.short;
  const numWindows = isShort ? 8 : 1;
  const maxOrder = isShort ? MAX_ORDER.short : MAX_ORDER.long;
  const filters: TnsFilter[] = [];
  for (let window = 0; window < numWindows; window++) {
    const numFilters = bits.read(isShort ? 1 : 2);
    if (numFilters === 0) continue;
    const resolution = 3 + bits.read(1);
    let endBand = layout.bands.offsets.length - 1;
    for (let i = 0; i < numFilters; i++) {
      const firstBand = Math.max(0, endBand - bits.read(isShort ? 4 : 6));
      const order = bits.read(isShort ? 3 : 5);
      if (order > maxOrder) {
        throw new RangeError(
          `The AAC data have a filter of order ${order}; the limit is ${maxOrder}.`,
        );
      }
      if (order > 0) {
        const isDownward = bits.read(1) === 1;
        const width = resolution - bits.read(1);
        const coefficients = toPrediction(
          Array.from(
            { length: order },
            () => decodeReflection(bits.read(width), width, resolution),
          ),
        );
        filters.push({ window, firstBand, endBand, isDownward, coefficients });
      }
      endBand = firstBand;
    }
  }
  return filters;
}

/** Applies filters to the windows of `spectrum`, in place. */
export function applyTns(
  spectrum: Float64Array,
  filters: readonly TnsFilter[],
  { bands, numBands, windowSize }: WindowLayout,
): void {
  const limit = Math.min(numBands, bands.maxTnsBands);
  for (const { window, firstBand, endBand, isDownward, coefficients } of filters) {
    const start = window * windowSize + bands.offsets[Math.min(firstBand, limit)]!;
    const end = window * windowSize + bands.offsets[Math.min(endBand, limit)]!;
    const step = isDownward ? -1 : 1;
    const first = isDownward ? end - 1 : start;
    for (let n = 0; n < end - start; n++) {
      let value = spectrum[first + n * step]!;
      for (let i = 0; i < Math.min(n, coefficients.length); i++) {
        value -= coefficients[i]! * spectrum[first + (n - 1 - i) * step]!;
      }
      spectrum[first + n * step] = value;
    }
  }
}

/** Decodes a reflection coefficient from its code of `width` bits. */
function decodeReflection(code: number, width: number, resolution: number): number {
  const signed = code >= 2 ** (width - 1) ? code - 2 ** width : code;
  const steps = 2 ** (resolution - 1) + (signed >= 0 ? -0.5 : 0.5);
  return Math.sin(signed * Math.PI / 2 / steps);
}

/** Converts reflection coefficients to prediction coefficients, by Levinson's recursion. */
function toPrediction(reflections: readonly number[]): Float64Array {
  let prediction: number[] = [];
  for (const k of reflections) {
    const previous = prediction;
    prediction = [...previous.map((a, i) => a + k * previous[previous.length - 1 - i]!), k];
  }
  return Float64Array.from(prediction);
}
