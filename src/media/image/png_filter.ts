/**
 * Undoes the filters of a PNG file's rows (ISO/IEC 15948, section 9).
 *
 * @module
 */
import { BAND_BYTES, PixelRoom } from "../pixel_simd.ts";
import { invalidImage } from "./format.ts";
import type { PngPass } from "./png_header.ts";

/** The input and output offsets of a pass. */
export interface PassRange {
  readonly pass: PngPass;
  /** Where its first row starts, with the number of its filter. */
  readonly start: number;
  /** Where its rows go, which then follow one another without such numbers; not after `start`. */
  readonly to: number;
  readonly pixelBytes: number;
}

/** Undoes the filters of a pass. @throws {HearthError} `invalid_media` when there is no such filter. */
export function unfilter(rows: Uint8Array, { pass, start, to, pixelBytes }: PassRange): void {
  const { height, rowBytes } = pass;
  const storedBytes = rowBytes + 1;
  const bandRows = Math.max(1, Math.floor(BAND_BYTES / storedBytes));

  const room = new PixelRoom();
  const input = room.reserve(bandRows * storedBytes);
  // The last row of a band comes before the first of the next.
  const above = room.reserve((bandRows + 1) * rowBytes);
  using memory = room.open();
  const { kernels, bytes } = memory;
  bytes.fill(0, above, above + rowBytes);

  for (let row = 0; row < height; row += bandRows) {
    const numRows = Math.min(bandRows, height - row);
    const from = start + row * storedBytes;
    bytes.set(rows.subarray(from, from + numRows * storedBytes), input);
    for (let i = 0; i < numRows; i++) {
      const at = input + i * storedBytes;
      const rowAbove = above + i * rowBytes;
      const filter = bytes[at]!;
      const isKnown = kernels.unfilterRow(
        filter,
        at + 1,
        rowAbove,
        rowAbove + rowBytes,
        rowBytes,
        pixelBytes,
      );
      if (isKnown) continue;
      throw invalidImage(`The PNG file is damaged: no row filter has the number ${filter}.`);
    }
    const first = above + rowBytes;
    const end = first + numRows * rowBytes;
    rows.set(bytes.subarray(first, end), to + row * rowBytes);
    bytes.copyWithin(above, end - rowBytes, end);
  }
}
