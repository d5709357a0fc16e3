/**
 * ONNX Runtime's two matrix products of float32 on the CPU, `MlasSgemmKernelZero` and `MlasSgemmKernelAdd`, for it to
 * run in place of its own; AssemblyScript, built by `deno task wasm`.
 *
 * Its own take two rows at a time, and round products before they are added. These take six rows and eight columns,
 * which share twelve sums in registers, and round once where the processor can; and they take all rows in one call, so
 * that sixteen columns of B stay in the nearest cache until they are done with.
 *
 * Each becomes one function without calls, globals or a stack, since it moves to another module: hence `@inline`.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/mlas/lib/wasm_simd/SgemmKernelWasmSimd.cpp
 */

/** `C = alpha · A · B`; see {@link multiply}. */
export function productZero(
  a: usize,
  b: usize,
  c: usize,
  numK: usize,
  numRows: usize,
  numColumns: usize,
  aStride: usize,
  cStride: usize,
  alpha: f32,
): usize {
  return multiply(a, b, c, numK, numRows, numColumns, aStride, cStride, alpha, false);
}

/** `C += alpha · A · B`; see {@link multiply}. */
export function productAdd(
  a: usize,
  b: usize,
  c: usize,
  numK: usize,
  numRows: usize,
  numColumns: usize,
  aStride: usize,
  cStride: usize,
  alpha: f32,
): usize {
  return multiply(a, b, c, numK, numRows, numColumns, aStride, cStride, alpha, true);
}

/** Bytes of a row of sixteen columns of B. */
const B_ROW: usize = 64;

/**
 * All of C. No size is 0.
 *
 * @param a f32 `[numRows, aStride]`, of which `numK` columns count.
 * @param b f32 `[numColumns / 16, numK, 16]`, rounded up and filled with zeros.
 * @param c f32 `[numRows, cStride]`, of which `numColumns` columns are written.
 * @param aStride floats.
 * @param cStride floats.
 * @returns the rows done: all of them.
 */
// @ts-ignore: decorator
@inline
function multiply(
  a: usize,
  b: usize,
  c: usize,
  numK: usize,
  numRows: usize,
  numColumns: usize,
  aStride: usize,
  cStride: usize,
  alpha: f32,
  adds: bool,
): usize {
  const scale = f32x4.splat(alpha);
  const aRow = aStride * 4;
  const cRow = cStride * 4;
  for (let columns = <isize> numColumns; columns > 0; columns -= 16) {
    const bEnd = b + numK * B_ROW;
    let rows = numRows;
    let from = a;
    let to = c;
    if (columns >= 16) {
      for (; rows >= 6; rows -= 6) {
        for (let half: usize = 0; half < B_ROW; half += B_ROW / 2) {
          sixRows(from, aRow, b + half, bEnd, to + half, cRow, scale, adds);
        }
        from += aRow * 6;
        to += cRow * 6;
      }
    }
    for (; rows >= 2; rows -= 2) {
      twoRows(from, aRow, b, bEnd, to, cRow, columns, scale, adds);
      from += aRow * 2;
      to += cRow * 2;
    }
    if (rows > 0) oneRow(from, b, bEnd, to, columns, scale, adds);
    b = bEnd;
    c += 64;
  }
  return numRows;
}

/** Eight columns of six rows. */
// @ts-ignore: decorator
@inline
function sixRows(
  a0: usize,
  aRow: usize,
  b: usize,
  bEnd: usize,
  c: usize,
  cRow: usize,
  scale: v128,
  adds: bool,
): void {
  const a1 = a0 + aRow, a2 = a1 + aRow, a3 = a2 + aRow, a4 = a3 + aRow, a5 = a4 + aRow;
  const zero = f32x4.splat(0);
  let c00 = zero, c01 = zero, c10 = zero, c11 = zero, c20 = zero, c21 = zero;
  let c30 = zero, c31 = zero, c40 = zero, c41 = zero, c50 = zero, c51 = zero;
  let k: usize = 0;
  for (; b < bEnd; b += B_ROW, k += 4) {
    const b0 = v128.load(b), b1 = v128.load(b, 16);
    let x = v128.load32_splat(a0 + k);
    c00 = madd(x, b0, c00), c01 = madd(x, b1, c01);
    x = v128.load32_splat(a1 + k);
    c10 = madd(x, b0, c10), c11 = madd(x, b1, c11);
    x = v128.load32_splat(a2 + k);
    c20 = madd(x, b0, c20), c21 = madd(x, b1, c21);
    x = v128.load32_splat(a3 + k);
    c30 = madd(x, b0, c30), c31 = madd(x, b1, c31);
    x = v128.load32_splat(a4 + k);
    c40 = madd(x, b0, c40), c41 = madd(x, b1, c41);
    x = v128.load32_splat(a5 + k);
    c50 = madd(x, b0, c50), c51 = madd(x, b1, c51);
  }
  putTwo(c, c00, c01, scale, adds);
  putTwo(c + cRow, c10, c11, scale, adds);
  putTwo(c + cRow * 2, c20, c21, scale, adds);
  putTwo(c + cRow * 3, c30, c31, scale, adds);
  putTwo(c + cRow * 4, c40, c41, scale, adds);
  putTwo(c + cRow * 5, c50, c51, scale, adds);
}

/** Up to sixteen columns of two rows. */
// @ts-ignore: decorator
@inline
function twoRows(
  a: usize,
  aRow: usize,
  b: usize,
  bEnd: usize,
  c: usize,
  cRow: usize,
  numColumns: isize,
  scale: v128,
  adds: bool,
): void {
  const zero = f32x4.splat(0);
  let c00 = zero, c01 = zero, c02 = zero, c03 = zero;
  let c10 = zero, c11 = zero, c12 = zero, c13 = zero;
  for (; b < bEnd; b += B_ROW, a += 4) {
    const x = v128.load32_splat(a), y = v128.load32_splat(a + aRow);
    let part = v128.load(b);
    c00 = madd(x, part, c00), c10 = madd(y, part, c10);
    part = v128.load(b, 16);
    c01 = madd(x, part, c01), c11 = madd(y, part, c11);
    part = v128.load(b, 32);
    c02 = madd(x, part, c02), c12 = madd(y, part, c12);
    part = v128.load(b, 48);
    c03 = madd(x, part, c03), c13 = madd(y, part, c13);
  }
  putRow(c, c00, c01, c02, c03, numColumns, scale, adds);
  putRow(c + cRow, c10, c11, c12, c13, numColumns, scale, adds);
}

/** Up to sixteen columns of one row. */
// @ts-ignore: decorator
@inline
function oneRow(
  a: usize,
  b: usize,
  bEnd: usize,
  c: usize,
  numColumns: isize,
  scale: v128,
  adds: bool,
): void {
  let c0 = f32x4.splat(0), c1 = c0, c2 = c0, c3 = c0;
  for (; b < bEnd; b += B_ROW, a += 4) {
    const x = v128.load32_splat(a);
    c0 = madd(x, v128.load(b), c0), c1 = madd(x, v128.load(b, 16), c1);
    c2 = madd(x, v128.load(b, 32), c2), c3 = madd(x, v128.load(b, 48), c3);
  }
  putRow(c, c0, c1, c2, c3, numColumns, scale, adds);
}

// @ts-ignore: decorator
@inline
function madd(a: v128, b: v128, c: v128): v128 {
  return f32x4.relaxed_madd(a, b, c);
}

/** The sums of a row, or as many of them as it has columns. */
// @ts-ignore: decorator
@inline
function putRow(
  at: usize,
  x0: v128,
  x1: v128,
  x2: v128,
  x3: v128,
  numColumns: isize,
  scale: v128,
  adds: bool,
): void {
  if (numColumns >= 16) {
    putTwo(at, x0, x1, scale, adds);
    putTwo(at + 32, x2, x3, scale, adds);
    return;
  }
  if (numColumns & 8) {
    putTwo(at, x0, x1, scale, adds);
    at += 32, x0 = x2, x1 = x3;
  }
  if (numColumns & 4) {
    put(at, x0, scale, adds);
    at += 16, x0 = x1;
  }
  x0 = f32x4.mul(x0, scale);
  if (numColumns & 2) {
    v128.store64_lane(at, adds ? f32x4.add(x0, v128.load64_zero(at)) : x0, 0);
    at += 8, x0 = v128.shuffle<u64>(x0, x0, 1, 1);
  }
  if (numColumns & 1) {
    v128.store32_lane(at, adds ? f32x4.add(x0, v128.load32_zero(at)) : x0, 0);
  }
}

// @ts-ignore: decorator
@inline
function putTwo(at: usize, x0: v128, x1: v128, scale: v128, adds: bool): void {
  put(at, x0, scale, adds);
  put(at + 16, x1, scale, adds);
}

// @ts-ignore: decorator
@inline
function put(at: usize, sums: v128, scale: v128, adds: bool): void {
  sums = f32x4.mul(sums, scale);
  v128.store(at, adds ? f32x4.add(sums, v128.load(at)) : sums);
}
