/**
 * Products of one, two or four rows with one row of an expert's matrix. The order in which a row's sums are added does
 * not depend on the number of rows.
 */
import { BITS4, BITS8, CHUNK_BYTES, ExpertsProduct, FLOATS } from "./product_layout";
import { madd } from "./vectors";

/** Multiplies row `row` of the matrices with rows of `x`, and stores the products `outBytes` apart. */
export function multiplyExpertRow(
  node: ExpertsProduct,
  row: usize,
  width: u32,
  x0: usize,
  x1: usize,
  x2: usize,
  x3: usize,
  out: usize,
  outBytes: usize,
): void {
  if (node.kind === BITS4) rounded<u8>(node, row, width, x0, x1, x2, x3, out, outBytes);
  else if (node.kind === BITS8) rounded<u16>(node, row, width, x0, x1, x2, x3, out, outBytes);
  else if (node.kind === FLOATS) floats<f32>(node, row, width, x0, x1, x2, x3, out, outBytes);
  else floats<u16>(node, row, width, x0, x1, x2, x3, out, outBytes);
}

/** `Level` is u8 for levels of 4 bits, and u16 for levels of 8 bits. */
@inline
function rounded<Level>(
  node: ExpertsProduct,
  row: usize,
  width: u32,
  x0: usize,
  x1: usize,
  x2: usize,
  x3: usize,
  out: usize,
  outBytes: usize,
): void {
  const chunks = <usize> node.k / 32;
  const weights = node.weights + row * chunks * 16 * sizeof<Level>();
  const scales = node.scales + row * chunks * (node.hasHalves ? 8 : 4);
  const zeros = node.zeros + row * chunks * (node.hasHalves ? 2 : 1);
  const end = weights + chunks * 16 * sizeof<Level>();
  // In each branch, the compiler knows the properties of the matrix.
  if (node.hasHalves) {
    if (node.zeros) {
      tile<Level>(weights, end, scales, zeros, width, x0, x1, x2, x3, out, outBytes, true, true);
    } else {
      tile<Level>(weights, end, scales, zeros, width, x0, x1, x2, x3, out, outBytes, false, true);
    }
  } else if (node.zeros) {
    tile<Level>(weights, end, scales, zeros, width, x0, x1, x2, x3, out, outBytes, true, false);
  } else {
    tile<Level>(weights, end, scales, zeros, width, x0, x1, x2, x3, out, outBytes, false, false);
  }
}

@inline
function tile<Level>(
  weights: usize,
  end: usize,
  scales: usize,
  zeros: usize,
  width: u32,
  x0: usize,
  x1: usize,
  x2: usize,
  x3: usize,
  out: usize,
  outBytes: usize,
  hasZeros: bool,
  hasHalves: bool,
): void {
  if (width === 1) {
    tileOf<Level>(1, weights, end, scales, zeros, x0, x1, x2, x3, out, outBytes, hasZeros, hasHalves);
  } else if (width === 2) {
    tileOf<Level>(2, weights, end, scales, zeros, x0, x1, x2, x3, out, outBytes, hasZeros, hasHalves);
  } else {
    tileOf<Level>(4, weights, end, scales, zeros, x0, x1, x2, x3, out, outBytes, hasZeros, hasHalves);
  }
}

@inline
function tileOf<Level>(
  width: u32,
  weights: usize,
  end: usize,
  scales: usize,
  zeros: usize,
  x0: usize,
  x1: usize,
  x2: usize,
  x3: usize,
  out: usize,
  outBytes: usize,
  hasZeros: bool,
  hasHalves: bool,
): void {
  let sums0 = f32x4.splat(0);
  let sums1 = sums0;
  let sums2 = sums0;
  let sums3 = sums0;
  for (; weights < end; weights += 16 * sizeof<Level>()) {
    const scale = scaleAt(scales, hasHalves);
    const zero = hasZeros ? zeroAt(zeros, hasHalves) : scale;
    const w0 = first<Level>(weights);
    const w1 = second<Level>(weights);
    const w2 = third<Level>(weights);
    const w3 = fourth<Level>(weights);
    scales += hasHalves ? 8 : 4;
    zeros += hasHalves ? 2 : 1;
    sums0 = addChunk(sums0, x0, w0, w1, w2, w3, scale, zero, hasZeros);
    x0 += CHUNK_BYTES;
    if (width === 1) continue;
    sums1 = addChunk(sums1, x1, w0, w1, w2, w3, scale, zero, hasZeros);
    x1 += CHUNK_BYTES;
    if (width === 2) continue;
    sums2 = addChunk(sums2, x2, w0, w1, w2, w3, scale, zero, hasZeros);
    sums3 = addChunk(sums3, x3, w0, w1, w2, w3, scale, zero, hasZeros);
    x2 += CHUNK_BYTES;
    x3 += CHUNK_BYTES;
  }
  store<f32>(out, sumAt(sums0));
  if (width === 1) return;
  store<f32>(out + outBytes, sumAt(sums1));
  if (width === 2) return;
  store<f32>(out + 2 * outBytes, sumAt(sums2));
  store<f32>(out + 3 * outBytes, sumAt(sums3));
}

@inline
function addChunk(
  sums: v128,
  x: usize,
  w0: v128,
  w1: v128,
  w2: v128,
  w3: v128,
  scale: v128,
  zero: v128,
  hasZeros: bool,
): v128 {
  let begin = v128.load(x, 64);
  if (hasZeros) begin = i32x4.mul(begin, zero);
  const front = i32x4.add(
    i32x4.dot_i16x8_s(w0, v128.load(x)),
    i32x4.dot_i16x8_s(w1, v128.load(x, 16)),
  );
  const back = i32x4.add(
    i32x4.dot_i16x8_s(w2, v128.load(x, 32)),
    i32x4.dot_i16x8_s(w3, v128.load(x, 48)),
  );
  const whole = f32x4.convert_i32x4_s(i32x4.add(begin, i32x4.add(front, back)));
  return madd(whole, f32x4.mul(scale, v128.load32_splat(x, 80)), sums);
}

/** The scale of a chunk, or the scales of its two halves. */
@inline
function scaleAt(scales: usize, hasHalves: bool): v128 {
  if (!hasHalves) return v128.load32_splat(scales);
  const pair = v128.load64_splat(scales);
  return v128.shuffle<i32>(pair, pair, 0, 0, 1, 1);
}

@inline
function zeroAt(zeros: usize, hasHalves: bool): v128 {
  const zero = i32x4.splat(load<u8>(zeros));
  if (!hasHalves) return zero;
  return v128.shuffle<i32>(zero, i32x4.splat(load<u8>(zeros, 1)), 0, 0, 4, 4);
}

/** Weights 0, 4, 8, … of a chunk. */
@inline
function first<Level>(at: usize): v128 {
  return sizeof<Level>() === 1
    ? v128.and(v128.load(at), i16x8.splat(15))
    : v128.and(evenWords(at), i16x8.splat(255));
}

@inline
function second<Level>(at: usize): v128 {
  return sizeof<Level>() === 1
    ? v128.and(i16x8.shr_u(v128.load(at), 4), i16x8.splat(15))
    : i16x8.shr_u(evenWords(at), 8);
}

@inline
function third<Level>(at: usize): v128 {
  return sizeof<Level>() === 1
    ? v128.and(i16x8.shr_u(v128.load(at), 8), i16x8.splat(15))
    : v128.and(oddWords(at), i16x8.splat(255));
}

@inline
function fourth<Level>(at: usize): v128 {
  return sizeof<Level>() === 1
    ? i16x8.shr_u(v128.load(at), 12)
    : i16x8.shr_u(oddWords(at), 8);
}

@inline
function evenWords(at: usize): v128 {
  return v128.shuffle<i16>(v128.load(at), v128.load(at, 16), 0, 2, 4, 6, 8, 10, 12, 14);
}

@inline
function oddWords(at: usize): v128 {
  return v128.shuffle<i16>(v128.load(at), v128.load(at, 16), 1, 3, 5, 7, 9, 11, 13, 15);
}

/** Weights in f32, or in f16 if `Stored` is u16. */
@inline
function floats<Stored>(
  node: ExpertsProduct,
  row: usize,
  width: u32,
  x0: usize,
  x1: usize,
  x2: usize,
  x3: usize,
  out: usize,
  outBytes: usize,
): void {
  const bytes = <usize> node.k * sizeof<Stored>();
  let at = node.weights + row * bytes;
  const end = at + bytes;
  let a0 = f32x4.splat(0);
  let a1 = a0;
  let a2 = a0;
  let a3 = a0;
  let b0 = a0;
  let b1 = a0;
  let b2 = a0;
  let b3 = a0;
  if (width === 1) {
    for (; at < end; at += 8 * sizeof<Stored>(), x0 += 32) {
      a0 = madd(four<Stored>(at), v128.load(x0), a0);
      b0 = madd(four<Stored>(at + 4 * sizeof<Stored>()), v128.load(x0, 16), b0);
    }
  } else {
    for (; at < end; at += 8 * sizeof<Stored>(), x0 += 32, x1 += 32, x2 += 32, x3 += 32) {
      const w0 = four<Stored>(at);
      const w1 = four<Stored>(at + 4 * sizeof<Stored>());
      a0 = madd(w0, v128.load(x0), a0);
      b0 = madd(w1, v128.load(x0, 16), b0);
      a1 = madd(w0, v128.load(x1), a1);
      b1 = madd(w1, v128.load(x1, 16), b1);
      a2 = madd(w0, v128.load(x2), a2);
      b2 = madd(w1, v128.load(x2, 16), b2);
      a3 = madd(w0, v128.load(x3), a3);
      b3 = madd(w1, v128.load(x3, 16), b3);
    }
  }
  store<f32>(out, sumAt(f32x4.add(a0, b0)));
  if (width === 1) return;
  store<f32>(out + outBytes, sumAt(f32x4.add(a1, b1)));
  if (width === 2) return;
  store<f32>(out + 2 * outBytes, sumAt(f32x4.add(a2, b2)));
  store<f32>(out + 3 * outBytes, sumAt(f32x4.add(a3, b3)));
}

@inline
function four<Stored>(at: usize): v128 {
  return sizeof<Stored>() === 4 ? v128.load(at) : widen(at);
}

/** Converts four numbers from f16 to f32, whose exponents have a bias that is larger by 112. */
@inline
function widen(at: usize): v128 {
  const spread = v128.shuffle<i16>(v128.load64_zero(at), i16x8.splat(0), 0, 8, 1, 8, 2, 8, 3, 8);
  const sign = i32x4.shl(v128.and(spread, i32x4.splat(0x8000)), 16);
  const rest = i32x4.shl(v128.and(spread, i32x4.splat(0x7fff)), 13);
  return v128.or(f32x4.mul(rest, f32x4.splat(5.192296858534828e33)), sign);
}

@inline
function sumAt(values: v128): f32 {
  let sums = f32x4.add(values, v128.shuffle<i32>(values, values, 2, 3, 0, 1));
  sums = f32x4.add(sums, v128.shuffle<i32>(sums, sums, 1, 0, 3, 2));
  return f32x4.extract_lane(sums, 0);
}
