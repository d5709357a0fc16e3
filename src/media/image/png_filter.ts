/**
 * Undoes the filters of a PNG file's rows (ISO/IEC 15948, section 9).
 *
 * @module
 */
import { invalidImage } from "./format.ts";
import type { PngPass } from "./png_header.ts";

/**
 * Undoes the filters of a pass in its place.
 *
 * @returns where the next pass starts.
 */
export function unfilter(
  rows: Uint8Array,
  { pass: { height, rowBytes }, start, pixelBytes }: {
    pass: PngPass;
    start: number;
    pixelBytes: number;
  },
): number {
  let at = start;
  for (let row = 0; row < height; row++, at += rowBytes + 1) {
    const first = at + 1;
    // Above the first row, and left of each, is black.
    const previous = row === 0 ? new Uint8Array(rowBytes) : rows.subarray(at - rowBytes, at);
    unfilterRow(rows[at]!, { row: rows.subarray(first, first + rowBytes), previous, pixelBytes });
  }
  return at;
}

interface FilteredRow {
  readonly row: Uint8Array;
  readonly previous: Uint8Array;
  readonly pixelBytes: number;
}

function unfilterRow(filter: number, { row, previous, pixelBytes }: FilteredRow): void {
  const { length } = row;
  switch (filter) {
    case 0:
      return;
    case 1:
      for (let i = pixelBytes; i < length; i++) row[i]! += row[i - pixelBytes]!;
      return;
    case 2:
      for (let i = 0; i < length; i++) row[i]! += previous[i]!;
      return;
    case 3:
      for (let i = 0; i < pixelBytes && i < length; i++) row[i]! += previous[i]! >> 1;
      for (let i = pixelBytes; i < length; i++) {
        row[i]! += (row[i - pixelBytes]! + previous[i]!) >> 1;
      }
      return;
    case 4:
      for (let i = 0; i < pixelBytes && i < length; i++) row[i]! += previous[i]!;
      for (let i = pixelBytes; i < length; i++) {
        const left = row[i - pixelBytes]!;
        const above = previous[i]!;
        const corner = previous[i - pixelBytes]!;
        const toLeft = Math.abs(above - corner);
        const toAbove = Math.abs(left - corner);
        const toCorner = Math.abs(left + above - 2 * corner);
        row[i]! += toLeft <= toAbove && toLeft <= toCorner
          ? left
          : toAbove <= toCorner
          ? above
          : corner;
      }
      return;
    default:
      throw invalidImage(`The PNG file is damaged: no row filter has the number ${filter}.`);
  }
}
