/**
 * How one AAC frame is divided into windows (ISO/IEC 14496-3, `ics_info`).
 *
 * @module
 */
import type { Bands, BandTable } from "./bands.ts";
import type { BitReader } from "../bit_reader.ts";

/** Which windows a frame has, and how it joins its neighbours. */
export const SEQUENCE = { long: 0, start: 1, short: 2, stop: 3 } as const;

type Sequence = typeof SEQUENCE[keyof typeof SEQUENCE];

/** The windows of a frame. */
export interface WindowLayout {
  readonly sequence: Sequence;
  /** 0: sine; 1: Kaiser-Bessel-derived. */
  readonly shape: number;
  readonly bands: Bands;
  /** Bands that are coded; those above are 0. */
  readonly numBands: number;
  /** Windows that share scale factors, by their number; they add up to 8, or to 1 for a long window. */
  readonly groups: readonly number[];
  readonly windowSize: number;
}

const NUM_SHORT_WINDOWS = 8;

/** @throws {RangeError} when the bits are invalid or use prediction, which the LC profile lacks. */
export function readWindowLayout(bits: BitReader, table: BandTable): WindowLayout {
  bits.skip(1);
  const sequence = bits.read(2) as Sequence;
  const shape = bits.read(1);
  const isShort = sequence === SEQUENCE.short;
  const bands = isShort ? table.short : table.long;
  const numBands = bits.read(isShort ? 4 : 6);
  if (numBands >= bands.offsets.length) {
    throw new RangeError(`The AAC data have ${numBands} bands of ${bands.offsets.length - 1}.`);
  }
  const groups = [1];
  if (isShort) {
    for (let window = 1; window < NUM_SHORT_WINDOWS; window++) {
      const isGrouped = bits.read(1) === 1;
      if (isGrouped) groups[groups.length - 1]!++;
      else groups.push(1);
    }
  } else if (bits.read(1) === 1) {
    throw new RangeError("The AAC data use prediction.");
  }
  return { sequence, shape, bands, numBands, groups, windowSize: isShort ? 128 : 1024 };
}
