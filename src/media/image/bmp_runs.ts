/**
 * Unpacks the run lengths of BMP files of 4 and 8 bits a pixel.
 *
 * @module
 */
import { invalidImage } from "./format.ts";

/** Codes after a zero: end of row, end of image, or delta; others are the number of literal indexes. */
const END_OF_ROW = 0;
const END_OF_IMAGE = 1;
const JUMP = 2;

/**
 * Unpacks palette indexes. Skipped ones are 0; those beyond a row are dropped.
 *
 * @returns u8 `[height, width]`, in the order of the file's rows.
 * @throws {HearthError} `invalid_media` when the runs end before the image does.
 */
export function unpackBmpRuns(
  packed: Uint8Array,
  { width, height, bits }: { width: number; height: number; bits: 4 | 8 },
): Uint8Array {
  const indexes = new Uint8Array(width * height);
  let x = 0;
  let y = 0;
  const put = (index: number) => {
    if (x < width) indexes[y * width + x] = index;
    x++;
  };
  const perByte = 8 / bits;
  const part = (byte: number, i: number) => bits === 8 ? byte : i % 2 === 0 ? byte >> 4 : byte & 15;
  for (let at = 0; y < height;) {
    if (at + 2 > packed.length) throw invalidImage("The BMP file is cut off in its pixels.");
    const count = packed[at++]!;
    const value = packed[at++]!;
    if (count > 0) { for (let i = 0; i < count; i++) put(part(value, i)); }
    else if (value === END_OF_IMAGE) break;
    else if (value === END_OF_ROW) {
      x = 0;
      y++;
    } else if (value === JUMP) {
      x += packed[at++] ?? 0;
      y += packed[at++] ?? 0;
    } else {
      for (let i = 0; i < value; i++) put(part(packed[at + Math.floor(i / perByte)] ?? 0, i));
      // Literal indexes are padded to whole words.
      at += Math.ceil(value / perByte / 2) * 2;
    }
  }
  return indexes;
}
