/**
 * Unpacks the fax codes in TIFF files: modified Huffman, group 3 (ITU-T T.4) and group 4 (ITU-T T.6).
 *
 * @module
 */
import { BitReader } from "../file_bytes.ts";

/** Codes for 0 to 63 white pixels. */
const WHITE = `00110101 000111 0111 1000 1011 1100 1110 1111 10011 10100 00111 01000 001000 000011
  110100 110101 101010 101011 0100111 0001100 0001000 0010111 0000011 0000100 0101000 0101011
  0010011 0100100 0011000 00000010 00000011 00011010 00011011 00010010 00010011 00010100 00010101
  00010110 00010111 00101000 00101001 00101010 00101011 00101100 00101101 00000100 00000101 00001010
  00001011 01010010 01010011 01010100 01010101 00100100 00100101 01011000 01011001 01011010 01011011
  01001010 01001011 00110010 00110011 00110100`;
/** Codes for 64, 128, … 1728 white pixels; another code follows. */
const LONG_WHITE = `11011 10010 010111 0110111 00110110 00110111 01100100 01100101 01101000 01100111
  011001100 011001101 011010010 011010011 011010100 011010101 011010110 011010111 011011000
  011011001 011011010 011011011 010011000 010011001 010011010 011000 010011011`;
const BLACK =
  `0000110111 010 11 10 011 0011 0010 00011 000101 000100 0000100 0000101 0000111 00000100
  00000111 000011000 0000010111 0000011000 0000001000 00001100111 00001101000 00001101100 00000110111
  00000101000 00000010111 00000011000 000011001010 000011001011 000011001100 000011001101
  000001101000 000001101001 000001101010 000001101011 000011010010 000011010011 000011010100
  000011010101 000011010110 000011010111 000001101100 000001101101 000011011010 000011011011
  000001010100 000001010101 000001010110 000001010111 000001100100 000001100101 000001010010
  000001010011 000000100100 000000110111 000000111000 000000100111 000000101000 000001011000
  000001011001 000000101011 000000101100 000001011010 000001100110 000001100111`;
const LONG_BLACK = `0000001111 000011001000 000011001001 000001011011 000000110011 000000110100
  000000110101 0000001101100 0000001101101 0000001001010 0000001001011 0000001001100 0000001001101
  0000001110010 0000001110011 0000001110100 0000001110101 0000001110110 0000001110111 0000001010010
  0000001010011 0000001010100 0000001010101 0000001011010 0000001011011 0000001100100 0000001100101`;
/** Codes for 1792, 1856, … 2560 pixels of either colour. */
const LONGEST =
  `00000001000 00000001100 00000001101 000000010010 000000010011 000000010100 000000010101
  000000010110 000000010111 000000011100 000000011101 000000011110 000000011111`;

/** Bits of the longest code. */
const MAX_FAX_CODE_BITS = 13;

/**
 * For any 13 bits, the code that they begin with: the code's value times 16, plus the code's number of bits; 0 if there
 * is none.
 */
type FaxCodeTable = Uint16Array;

function makeTable(codes: Iterable<readonly [code: string, value: number]>): FaxCodeTable {
  const table = new Uint16Array(1 << MAX_FAX_CODE_BITS);
  for (const [code, value] of codes) {
    const numRest = MAX_FAX_CODE_BITS - code.length;
    const from = Number.parseInt(code, 2) << numRest;
    table.fill(value * 16 + code.length, from, from + (1 << numRest));
  }
  return table;
}

function* listRuns(short: string, long: string): Generator<readonly [string, number]> {
  for (const [i, code] of short.split(/\s+/).entries()) yield [code, i];
  for (const [i, code] of long.split(/\s+/).entries()) yield [code, 64 * (i + 1)];
  for (const [i, code] of LONGEST.split(/\s+/).entries()) yield [code, 1792 + 64 * i];
}

/** Codes for the lengths of white runs. After a length of 64 or more comes another code, whose length is added. */
const WHITE_RUNS = makeTable(listRuns(WHITE, LONG_WHITE));
/** Codes for the lengths of black runs. */
const BLACK_RUNS = makeTable(listRuns(BLACK, LONG_BLACK));

/**
 * Codes for the difference of a row from the row above (T.4, table 4). Values from 0 to 6 are shifts by -3 to 3 pixels.
 */
const FAX_MODE = { noShift: 3, pass: 7, horizontal: 8 } as const;
const FAX_MODES = makeTable([
  ["0000010", 0],
  ["000010", 1],
  ["010", 2],
  ["1", FAX_MODE.noShift],
  ["011", 4],
  ["000011", 5],
  ["0000011", 6],
  ["0001", FAX_MODE.pass],
  ["001", FAX_MODE.horizontal],
]);

/** The coding of the rows. */
export interface FaxOptions {
  /** Number of pixels in a row. */
  readonly width: number;
  /**
   * The separation of rows. `huffman`: each row begins at a whole byte, without a mark. `group 3`: a mark precedes each
   * row; with `isTwoDimensional`, a bit after that mark says whether the row is coded relative to the row above.
   * `group 4`: every row is coded relative to the row above, without marks.
   */
  readonly kind: "huffman" | "group 3" | "group 4";
  readonly isTwoDimensional?: boolean;
}

/** The mark before a row: at least this many zeros, and a one. */
const MARK_ZEROS = 11;

/**
 * Unpacks rows until the codes or the output end, or a code is invalid. In group 3, a row with an invalid code is white
 * after that code, and decoding continues with the next row.
 *
 * @param rows receives one bit a pixel, 1 for black; each row begins at a whole byte.
 * @returns the number of bytes that were filled.
 */
export function unpackFax(
  codes: Uint8Array,
  rows: Uint8Array,
  { width, kind, isTwoDimensional = false }: FaxOptions,
): number {
  const bits = new BitReader(codes);
  const rowBytes = Math.ceil(width / 8);
  // Positions where the colour changes in the row above. Rows begin with white.
  let above: number[] = [];
  let filled = 0;
  while (filled + rowBytes <= rows.length) {
    if (kind === "huffman") bits.align();
    const hasMark = kind === "group 3" && skipMark(bits);
    if (bits.bitsLeft === 0) break;
    const isRelative = kind === "group 4" ||
      kind === "group 3" && isTwoDimensional && hasMark && bits.read(1) === 0;
    const { changes, isComplete } = isRelative
      ? readRelativeRow(bits, above, width)
      : readRow(bits, width);
    if (!isComplete) {
      if (kind !== "group 3" || !findMark(bits)) break;
      // A black run without an end would extend to the right edge.
      if (changes.length % 2 === 1) changes.pop();
    }
    paint(rows.subarray(filled, filled + rowBytes), changes, width);
    filled += rowBytes;
    above = changes;
  }
  return filled;
}

interface Row {
  /** Positions where the colour changes: to black, to white, and so on. */
  readonly changes: number[];
  /** Whether all codes of the row were valid. */
  readonly isComplete: boolean;
}

function readRow(bits: BitReader, width: number): Row {
  const changes: number[] = [];
  for (let at = 0, isBlack = false; at < width; isBlack = !isBlack) {
    const run = readRun(bits, isBlack);
    if (run === undefined) return { changes, isComplete: false };
    at += run;
    changes.push(Math.min(at, width));
  }
  return { changes, isComplete: true };
}

function readRelativeRow(bits: BitReader, above: readonly number[], width: number): Row {
  const changes: number[] = [];
  let at = 0;
  let isBlack = false;
  // Index of the first change in the row above that is not left of `at`. It only moves back after a shift to the left.
  let next = 0;
  for (let isStart = true; at < width; isStart = false) {
    while (next > 0 && above[next - 1]! > at) next--;
    while (next < above.length && (above[next]! < at || above[next]! === at && !isStart)) next++;
    // Even indices mark changes to black, odd ones changes to white. The next change must be one away from the current
    // colour.
    const opposite = (next & 1) === (isBlack ? 1 : 0) ? next : next + 1;
    const change = above[opposite] ?? width;
    const mode = readCode(bits, FAX_MODES);
    if (mode === undefined) return { changes, isComplete: false };
    if (mode === FAX_MODE.pass) {
      at = above[opposite + 1] ?? width;
    } else if (mode === FAX_MODE.horizontal) {
      for (let i = 0; i < 2; i++) {
        const run = readRun(bits, isBlack !== (i === 1));
        if (run === undefined) return { changes, isComplete: false };
        at = Math.min(width, at + run);
        changes.push(at);
      }
    } else {
      const to = change + mode - FAX_MODE.noShift;
      if (to < at || to > width) return { changes, isComplete: false };
      at = to;
      changes.push(at);
      isBlack = !isBlack;
    }
  }
  return { changes, isComplete: true };
}

/** Paints the black pixels: each run begins at a change with an even index and ends at the next one. */
function paint(row: Uint8Array, changes: readonly number[], width: number): void {
  row.fill(0);
  for (let i = 0; i < changes.length; i += 2) {
    const end = changes[i + 1] ?? width;
    for (let x = changes[i]!; x < end; x++) {
      if ((x & 7) === 0 && x + 8 <= end) {
        row[x >> 3] = 0xff;
        x += 7;
      } else row[x >> 3]! |= 0x80 >> (x & 7);
    }
  }
}

/** The value of the next code; `undefined` if it is invalid or the input has ended. */
function readCode(bits: BitReader, table: FaxCodeTable): number | undefined {
  const entry = table[bits.peek(MAX_FAX_CODE_BITS)]!;
  const numBits = entry & 15;
  if (numBits === 0 || numBits > bits.bitsLeft) return undefined;
  bits.skip(numBits);
  return entry >> 4;
}

function readRun(bits: BitReader, isBlack: boolean): number | undefined {
  const table = isBlack ? BLACK_RUNS : WHITE_RUNS;
  for (let length = 0;;) {
    const part = readCode(bits, table);
    if (part === undefined) return undefined;
    length += part;
    if (part < 64) return length;
  }
}

/**
 * Skips one mark, and zeros that fill up the space before it.
 *
 * @returns whether there was one.
 */
function skipMark(bits: BitReader): boolean {
  if (bits.peek(MARK_ZEROS) !== 0) return false;
  let isOver = false;
  while (!isOver && bits.bitsLeft > 0) isOver = bits.read(1) === 1;
  return true;
}

/**
 * Moves to the next mark.
 *
 * @returns whether there is one.
 */
function findMark(bits: BitReader): boolean {
  while (bits.bitsLeft > 0 && bits.peek(MARK_ZEROS) !== 0) bits.skip(1);
  return bits.bitsLeft > 0;
}
