/** The alpha of RGBA pixels, four at a time. */

/** Whether all pixels are opaque. Up to 12 bytes after the last are read, which must not look transparent. */
export function isOpaque(pixels: usize, numPixels: usize): bool {
  let all = i8x16.splat(-1);
  for (const end = pixels + numPixels * 4; pixels < end; pixels += 16) {
    all = v128.and(all, v128.load(pixels));
  }
  return i32x4.all_true(i32x4.eq(i32x4.shr_s(all, 24), i32x4.splat(-1)));
}

/** RGBA as RGB. Up to 12 bytes after the last are read, and up to 16 after the output written. */
export function dropAlpha(pixels: usize, numPixels: usize, output: usize): void {
  for (const end = pixels + numPixels * 4; pixels < end; pixels += 16, output += 12) {
    // deno-fmt-ignore
    const colors = i8x16(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    v128.store(output, i8x16.swizzle(v128.load(pixels), colors));
  }
}
