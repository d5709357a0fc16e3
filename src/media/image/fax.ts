/**
 * Unpacks the fax codes in TIFF files: modified Huffman, group 3 (ITU-T T.4) and group 4 (ITU-T T.6).
 *
 * @module
 */
import {
  BLACK_RUNS,
  FAX_MODE,
  FAX_MODES,
  type FaxCodeTable,
  MAX_FAX_CODE_BITS,
  WHITE_RUNS,
} from "./fax_codes.ts";

/** How the rows are coded. */
export interface FaxOptions {
  /** Number of pixels in a row. */
  readonly width: number;
  /**
   * How rows are separated. `huffman`: each row begins at a byte, without a mark. `group 3`: a mark precedes each row;
   * with `isTwoDimensional`, a bit after the mark says whether the row is coded relative to the row above. `group 4`:
   * every row is coded relative to the row above, without marks.
   */
  readonly kind: "huffman" | "group 3" | "group 4";
  readonly isTwoDimensional?: boolean;
}

/** The mark before a row: at least this many zeros, and a one. */
const MARK_ZEROS = 11;

/**
 * Unpacks rows until the codes or the output end, or a code is invalid. In group 3, a row with an invalid code is white
 * after it, and decoding goes on with the next row.
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
    const hasMark = kind === "group 3" && bits.skipMark();
    if (bits.isAtEnd) break;
    const isGivenByAbove = kind === "group 4" ||
      kind === "group 3" && isTwoDimensional && hasMark && bits.take(1) === 0;
    const { changes, isComplete } = isGivenByAbove
      ? readRowByAbove(bits, above, width)
      : readRow(bits, width);
    if (!isComplete) {
      if (kind !== "group 3" || !bits.findMark()) break;
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
    const run = bits.takeRun(isBlack);
    if (run === undefined) return { changes, isComplete: false };
    at += run;
    changes.push(Math.min(at, width));
  }
  return { changes, isComplete: true };
}

function readRowByAbove(bits: BitReader, above: readonly number[], width: number): Row {
  const changes: number[] = [];
  let at = 0;
  let isBlack = false;
  // Index of the first change in the row above that is not left of `at`. It only moves back after a shift to the left.
  let next = 0;
  for (let isStart = true; at < width; isStart = false) {
    while (next > 0 && above[next - 1]! > at) next--;
    while (next < above.length && (above[next]! < at || above[next]! === at && !isStart)) next++;
    // Changes with an even index are to black. The one that is needed changes to the opposite of the current colour.
    const opposite = (next & 1) === (isBlack ? 1 : 0) ? next : next + 1;
    const change = above[opposite] ?? width;
    const mode = bits.takeCode(FAX_MODES);
    if (mode === undefined) return { changes, isComplete: false };
    if (mode === FAX_MODE.pass) {
      at = above[opposite + 1] ?? width;
    } else if (mode === FAX_MODE.horizontal) {
      for (let i = 0; i < 2; i++) {
        const run = bits.takeRun(isBlack !== (i === 1));
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

/** Reads bits from the highest of each byte on; bits beyond the end are zeros. */
class BitReader {
  readonly #bytes: Uint8Array;
  /** Position in bits. */
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length * 8;
  }

  align(): void {
    this.#at = Math.ceil(this.#at / 8) * 8;
  }

  /** @param count at most 16. */
  #peek(count: number): number {
    const from = this.#at >> 3;
    const bytes = this.#bytes;
    const word = (bytes[from] ?? 0) << 16 | (bytes[from + 1] ?? 0) << 8 | (bytes[from + 2] ?? 0);
    return word >> (24 - count - (this.#at & 7)) & ((1 << count) - 1);
  }

  take(count: number): number {
    const value = this.#peek(count);
    this.#at += count;
    return value;
  }

  /** The value of the next code; `undefined` if it is invalid or the input has ended. */
  takeCode(table: FaxCodeTable): number | undefined {
    const entry = table[this.#peek(MAX_FAX_CODE_BITS)]!;
    if (entry === 0 || this.isAtEnd) return undefined;
    this.#at += entry & 15;
    return entry >> 4;
  }

  takeRun(isBlack: boolean): number | undefined {
    const table = isBlack ? BLACK_RUNS : WHITE_RUNS;
    for (let length = 0;;) {
      const part = this.takeCode(table);
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
  skipMark(): boolean {
    if (this.#peek(MARK_ZEROS) !== 0) return false;
    while (!this.isAtEnd && this.#peek(1) === 0) this.#at++;
    this.#at++;
    return true;
  }

  /**
   * Moves to the next mark.
   *
   * @returns whether there is one.
   */
  findMark(): boolean {
    while (!this.isAtEnd && this.#peek(MARK_ZEROS) !== 0) this.#at++;
    return !this.isAtEnd;
  }
}
