/**
 * Temporal noise shaping: linear prediction along the spectrum (ISO/IEC 14496-3, section 4.6.9).
 *
 * @module
 */
import type { BitReader } from "../bit_reader.ts";
import { SEQUENCE, type WindowLayout } from "./bands.ts";

/** A filter over some bands of one window. */
export interface TnsFilter {
  readonly window: number;
  /** The filter covers the bands from `firstBand` to before `endBand`. */
  readonly firstBand: number;
  readonly endBand: number;
  readonly isDownward: boolean;
  /** Prediction coefficients, that of the nearest neighbour first. */
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
      if (order > maxOrder) throw new RangeError(`The AAC data have a filter of order ${order}.`);
      if (order > 0) {
        const isDownward = bits.read(1) === 1;
        const width = resolution - bits.read(1);
        const coefficients = toPrediction(
          Array.from({ length: order }, () => reflection(bits.read(width), width, resolution)),
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
function reflection(code: number, width: number, resolution: number): number {
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
