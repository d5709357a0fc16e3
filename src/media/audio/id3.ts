/**
 * ID3v2 tags in front of MP3 and sometimes other files.
 *
 * @module
 */

const HEADER_BYTES = 10;
const HAS_FOOTER = 0x10;

/** The offset of a file's content after any tags. */
export function skipId3(file: Uint8Array): number {
  let at = 0;
  while (file[at] === 0x49 && file[at + 1] === 0x44 && file[at + 2] === 0x33) {
    const [a, b, c, d] = file.subarray(at + 6, at + HEADER_BYTES);
    if (d === undefined) return file.length;
    const size = (a! & 127) << 21 | (b! & 127) << 14 | (c! & 127) << 7 | d & 127;
    const footer = file[at + 5]! & HAS_FOOTER ? HEADER_BYTES : 0;
    at = Math.min(file.length, at + HEADER_BYTES + size + footer);
  }
  return at;
}
