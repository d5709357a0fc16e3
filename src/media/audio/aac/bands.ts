/**
 * The division of AAC spectra into scale factor bands (ISO/IEC 14496-3, tables 4.129 to 4.147).
 *
 * @module
 */
import type { BitReader } from "../../bit_reader.ts";

/** Sample rates by their index in the format. */
export const SAMPLE_RATES_HZ = [
  96_000,
  88_200,
  64_000,
  48_000,
  44_100,
  32_000,
  24_000,
  22_050,
  16_000,
  12_000,
  11_025,
  8_000,
  7_350,
] as const;

/** The bands of one window length. */
interface Bands {
  /** u16 `[bands + 1]`: band `b` has coefficients `offsets[b]` to `offsets[b + 1]`. */
  readonly offsets: Uint16Array;
  /** Number of bands that temporal noise shaping may use. */
  readonly maxTnsBands: number;
}

/** The bands of both window lengths. */
export interface BandTable {
  readonly long: Bands;
  readonly short: Bands;
}

/** Widths of the bands, the lowest first; `4*14` means 14 bands of width 4. */
const LONG_96 = "4*14 8*5 12*5 16*2 24 28 36 44 64*11";
const LONG_64 = "4*14 8*4 12*3 16*3 20 24*2 28 36 40*18";
const LONG_48 = "4*10 8*7 12*4 16*2 20*2 24*2 28*2 32*19 96";
const LONG_32 = "4*10 8*7 12*4 16*2 20*2 24*2 28*2 32*22";
const LONG_24 = "4*11 8*10 12*4 16*3 20*2 24*2 28*2 32 36*2 40 44 48 52*2 64*5";
const LONG_16 = "8*11 12*9 16*4 20*3 24*2 28*2 32 36 40*2 44 48 52 56 60 64*3";
const LONG_8 = "12*13 16*7 20*4 24*3 28*2 32 36*2 40 44 48 52 56 60 64 80";
const SHORT_96 = "4*6 8*3 16 28 36";
const SHORT_48 = "4*5 8*3 12*3 16*3";
const SHORT_24 = "4*7 8*3 12*2 16*2 20";
const SHORT_16 = "4*8 8*2 12*2 16 20*2";
const SHORT_8 = "4*7 8*4 12 16 20*2";

/**
 * For each index of a sample rate: the long bands and how many of them noise shaping may use, then the same for short
 * bands.
 */
const TABLES:
  readonly (readonly [long: string, longTns: number, short: string, shortTns: number])[] = [
    [LONG_96, 31, SHORT_96, 9],
    [LONG_96, 31, SHORT_96, 9],
    [LONG_64, 34, SHORT_96, 10],
    [LONG_48, 40, SHORT_48, 14],
    [LONG_48, 42, SHORT_48, 14],
    [LONG_32, 51, SHORT_48, 14],
    [LONG_24, 46, SHORT_24, 14],
    [LONG_24, 46, SHORT_24, 14],
    [LONG_16, 42, SHORT_16, 14],
    [LONG_16, 42, SHORT_16, 14],
    [LONG_16, 42, SHORT_16, 14],
    [LONG_8, 39, SHORT_8, 14],
    [LONG_8, 39, SHORT_8, 14],
  ];

/** The bands at a sample rate. A rate without an index uses the bands of the next lower rate that has one. */
export function getBands(sampleRateHz: number): BandTable {
  const index = SAMPLE_RATES_HZ.findIndex((rate) => rate <= sampleRateHz);
  const [long, longTns, short, shortTns] = TABLES.at(index)!;
  return {
    long: { offsets: toOffsets(long), maxTnsBands: longTns },
    short: { offsets: toOffsets(short), maxTnsBands: shortTns },
  };
}

function toOffsets(widths: string): Uint16Array {
  const offsets = [0];
  for (const run of widths.split(" ")) {
    const [width, times = 1] = run.split("*").map(Number);
    for (let i = 0; i < times; i++) offsets.push(offsets.at(-1)! + width!);
  }
  return Uint16Array.from(offsets);
}

/** The kinds of a frame's windows: a single long one, or eight short ones, or long ones that join the two. */
export const SEQUENCE = { long: 0, start: 1, short: 2, stop: 3 } as const;

type Sequence = typeof SEQUENCE[keyof typeof SEQUENCE];

/** The windows of a frame. */
export interface WindowLayout {
  readonly sequence: Sequence;
  /** 0: sine; 1: Kaiser-Bessel-derived. */
  readonly shape: number;
  readonly bands: Bands;
  /** Number of coded bands; the bands above are 0. */
  readonly numBands: number;
  /** Numbers of consecutive windows that share scale factors. They add up to 8, or to 1 for a long window. */
  readonly groups: readonly number[];
  readonly windowSize: number;
}

const NUM_SHORT_WINDOWS = 8;

/** @throws {RangeError} when the bits are invalid or use prediction, which is not part of the LC profile. */
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
