/**
 * Filters rows of pixels for a PNG file, undoes their filters (ISO/IEC 15948, section 9), and computes the checksum of
 * a zlib stream.
 */

/** Stores each byte of a row as its difference from the same channel of the previous pixel. */
const SUB_FILTER: u8 = 1;

/**
 * Filters rows, and puts the number of the filter before each. Up to 15 bytes after the output are written.
 *
 * @param channels bytes of a pixel. That many bytes before the first row are read.
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

/**
 * Undoes one row's filter. Up to 16 bytes after the input and the row above are read, and up to 16 after the output are
 * written.
 *
 * @param above the row above, unfiltered.
 * @param pixelBytes distance between the same bytes of two pixels; 3 and 4 are fast.
 * @returns whether there is a filter of that number.
 */
export function unfilterRow(
  filter: u32,
  input: usize,
  above: usize,
  output: usize,
  rowBytes: usize,
  pixelBytes: usize,
): bool {
  const end = output + rowBytes;
  switch (filter) {
    case 0:
      memory.copy(output, input, rowBytes);
      return true;
    case 1:
      if (pixelBytes === 3) addLeft3(input, output, end);
      else if (pixelBytes === 4) addLeft4(input, output, end);
      else addLeft(input, output, end, pixelBytes);
      return true;
    case 2:
      for (; output < end; input += 16, above += 16, output += 16) {
        v128.store(output, i8x16.add(v128.load(input), v128.load(above)));
      }
      return true;
    case 3:
      if (pixelBytes === 3 || pixelBytes === 4) {
        addMeanOfPixels(input, above, output, end, pixelBytes);
      } else addMean(input, above, output, end, pixelBytes);
      return true;
    case 4:
      if (pixelBytes === 3 || pixelBytes === 4) {
        addPaethOfPixels(input, above, output, end, pixelBytes);
      } else addPaeth(input, above, output, end, pixelBytes);
      return true;
    default:
      return false;
  }
}

/**
 * Processes four pixels at a time: a prefix sum of the four in two steps, then the last pixel of the previous four is
 * added to each.
 */
function addLeft3(input: usize, output: usize, end: usize): void {
  let last = i8x16.splat(0);
  for (; output < end; input += 12, output += 12) {
    let x = v128.load(input);
    // deno-fmt-ignore
    x = i8x16.add(x, i8x16.swizzle(x, i8x16(-1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)));
    // deno-fmt-ignore
    x = i8x16.add(x, i8x16.swizzle(x, i8x16(-1, -1, -1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)));
    x = i8x16.add(x, last);
    v128.store(output, x);
    last = i8x16.swizzle(x, i8x16(9, 10, 11, 9, 10, 11, 9, 10, 11, 9, 10, 11, 9, 10, 11, 9));
  }
}

function addLeft4(input: usize, output: usize, end: usize): void {
  let last = i8x16.splat(0);
  for (; output < end; input += 16, output += 16) {
    let x = v128.load(input);
    // deno-fmt-ignore
    x = i8x16.add(x, i8x16.swizzle(x, i8x16(-1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)));
    // deno-fmt-ignore
    x = i8x16.add(x, i8x16.swizzle(x, i8x16(-1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7)));
    x = i8x16.add(x, last);
    v128.store(output, x);
    last = i8x16.swizzle(x, i8x16(12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15));
  }
}

function addMeanOfPixels(
  input: usize,
  above: usize,
  output: usize,
  end: usize,
  pixelBytes: usize,
): void {
  let left = i8x16.splat(0);
  for (; output < end; input += pixelBytes, above += pixelBytes, output += pixelBytes) {
    const up = v128.load32_zero(above);
    // `avgr_u` rounds up: subtract 1 where the sum is odd.
    const odd = v128.and(v128.xor(left, up), i8x16.splat(1));
    const mean = i8x16.sub(i8x16.avgr_u(left, up), odd);
    left = i8x16.add(v128.load32_zero(input), mean);
    v128.store32_lane(output, left, 0);
  }
}

function addPaethOfPixels(
  input: usize,
  above: usize,
  output: usize,
  end: usize,
  pixelBytes: usize,
): void {
  let left = i16x8.splat(0);
  let corner = i16x8.splat(0);
  const byte = i16x8.splat(0xff);
  for (; output < end; input += pixelBytes, above += pixelBytes, output += pixelBytes) {
    const up = i16x8.extend_low_i8x16_u(v128.load32_zero(above));
    const difference = i16x8.extend_low_i8x16_u(v128.load32_zero(input));
    const fromLeft = i16x8.sub(up, corner);
    const fromUp = i16x8.sub(left, corner);
    const toLeft = i16x8.abs(fromLeft);
    const toUp = i16x8.abs(fromUp);
    const toCorner = i16x8.abs(i16x8.add(fromLeft, fromUp));
    const least = i16x8.min_s(i16x8.min_s(toLeft, toUp), toCorner);
    const upOrCorner = v128.bitselect(up, corner, i16x8.eq(least, toUp));
    const guess = v128.bitselect(left, upOrCorner, i16x8.eq(least, toLeft));
    left = v128.and(i16x8.add(difference, guess), byte);
    corner = up;
    v128.store32_lane(output, i8x16.narrow_i16x8_u(left, left), 0);
  }
}

function addLeft(input: usize, output: usize, end: usize, pixelBytes: usize): void {
  const second = output + pixelBytes;
  for (; output < end; input++, output++) {
    const left = output < second ? 0 : load<u8>(output - pixelBytes);
    store<u8>(output, load<u8>(input) + left);
  }
}

function addMean(
  input: usize,
  above: usize,
  output: usize,
  end: usize,
  pixelBytes: usize,
): void {
  const second = output + pixelBytes;
  for (; output < end; input++, above++, output++) {
    const left: u32 = output < second ? 0 : load<u8>(output - pixelBytes);
    store<u8>(output, load<u8>(input) + <u8> ((left + load<u8>(above)) >> 1));
  }
}

function addPaeth(
  input: usize,
  above: usize,
  output: usize,
  end: usize,
  pixelBytes: usize,
): void {
  const second = output + pixelBytes;
  for (; output < end; input++, above++, output++) {
    const up: i32 = load<u8>(above);
    const left: i32 = output < second ? 0 : load<u8>(output - pixelBytes);
    const corner: i32 = output < second ? 0 : load<u8>(above - pixelBytes);
    const toLeft = abs(up - corner);
    const toUp = abs(left - corner);
    const toCorner = abs(left + up - 2 * corner);
    const guess = toLeft <= toUp && toLeft <= toCorner ? left : toUp <= toCorner ? up : corner;
    store<u8>(output, load<u8>(input) + <u8> guess);
  }
}
