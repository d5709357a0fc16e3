/** Operations across the lanes of vectors. */

/**
 * The first word of a vector in all four lanes. Four words that lie side by side are loaded at once and spread: every
 * load of WebAssembly checks its address, a shuffle does not.
 */
@inline
export function spread0(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 0, 0, 0, 0);
}

@inline
export function spread1(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 1, 1, 1, 1);
}

@inline
export function spread2(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 2, 2, 2, 2);
}

@inline
export function spread3(words: v128): v128 {
  return v128.shuffle<i32>(words, words, 3, 3, 3, 3);
}

/** Transposes four rows of four words, which are `stride` bytes apart, to rows `rowBytes` apart. */
@inline
export function transpose(from: usize, stride: usize, into: usize, rowBytes: usize): void {
  const a = v128.load(from);
  const b = v128.load(from + stride);
  const c = v128.load(from + 2 * stride);
  const d = v128.load(from + 3 * stride);
  const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5);
  const cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const ab2 = v128.shuffle<i32>(a, b, 2, 6, 3, 7);
  const cd2 = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(into, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(into + rowBytes, v128.shuffle<i64>(ab, cd, 1, 3));
  v128.store(into + 2 * rowBytes, v128.shuffle<i64>(ab2, cd2, 0, 2));
  v128.store(into + 3 * rowBytes, v128.shuffle<i64>(ab2, cd2, 1, 3));
}

/** The largest of four lanes, or NaN if one is. */
export function largestLane(x: v128): f32 {
  return max(
    max(f32x4.extract_lane(x, 0), f32x4.extract_lane(x, 1)),
    max(f32x4.extract_lane(x, 2), f32x4.extract_lane(x, 3)),
  );
}

export function sumOfLanes(x: v128): f32 {
  return (f32x4.extract_lane(x, 0) + f32x4.extract_lane(x, 1)) +
    (f32x4.extract_lane(x, 2) + f32x4.extract_lane(x, 3));
}
