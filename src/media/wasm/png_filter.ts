/** Filters rows of pixels for a PNG file, and computes the checksum of a zlib stream. */

/** Stores each byte of a row as its difference from the same channel of the previous pixel. */
const SUB_FILTER: u8 = 1;

/**
 * Filters rows, and puts the number of the filter before each. Up to 15 bytes after the output are written.
 *
 * @param channels bytes of a pixel; as many bytes before the first row are read.
 */
export function filterRows(
  input: usize,
  rowBytes: usize,
  numRows: u32,
  channels: usize,
  output: usize,
): void {
  for (let row: u32 = 0; row < numRows; row++, input += rowBytes, output += rowBytes + 1) {
    for (let at: usize = 0; at < rowBytes; at += 16) {
      const levels = v128.load(input + at);
      v128.store(output + 1 + at, i8x16.sub(levels, v128.load(input + at - channels)));
    }
    store<u8>(output, SUB_FILTER);
    for (let at: usize = 0; at < min(channels, rowBytes); at++) {
      store<u8>(output + 1 + at, load<u8>(input + at));
    }
  }
}

const MODULUS: u32 = 65521;
/** With at most this many bytes at a time, the sum of sums fits into 32 bits. */
const BLOCK: usize = 5552;

/** Continues an Adler-32 checksum (RFC 1950). */
export function sumBytes(checksum: u32, at: usize, numBytes: usize): u32 {
  let a = checksum & 0xffff;
  let b = checksum >>> 16;
  const end = at + numBytes;
  const whole = at + (numBytes & ~(<usize> 15));
  const high = i16x8(16, 15, 14, 13, 12, 11, 10, 9);
  const low = i16x8(8, 7, 6, 5, 4, 3, 2, 1);
  while (at < whole) {
    const blockEnd = min(whole, at + BLOCK);
    b += a * <u32> (blockEnd - at);
    let sums = i32x4.splat(0);
    let before = i32x4.splat(0);
    let weighted = i32x4.splat(0);
    for (; at < blockEnd; at += 16) {
      const bytes = v128.load(at);
      const left = i16x8.extend_low_i8x16_u(bytes);
      const right = i16x8.extend_high_i8x16_u(bytes);
      before = i32x4.add(before, sums);
      sums = i32x4.add(sums, i32x4.extadd_pairwise_i16x8_u(i16x8.add(left, right)));
      weighted = i32x4.add(
        weighted,
        i32x4.add(i32x4.dot_i16x8_s(left, high), i32x4.dot_i16x8_s(right, low)),
      );
    }
    a = (a + total(sums)) % MODULUS;
    b = (b + (total(before) << 4) + total(weighted)) % MODULUS;
  }
  for (; at < end; at++) {
    a += load<u8>(at);
    b += a;
  }
  return (b % MODULUS) << 16 | a % MODULUS;
}

// @ts-ignore: decorator
@inline
function total(sums: v128): u32 {
  return i32x4.extract_lane(sums, 0) + i32x4.extract_lane(sums, 1) +
    i32x4.extract_lane(sums, 2) + i32x4.extract_lane(sums, 3);
}
