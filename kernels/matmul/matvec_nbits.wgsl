// The matrix [outputs, K] in blocks of 1, 2, 4 or 8 bits, the layout of MatMulNBits of com.microsoft: `(level - zero) *
// scale`.

// A row's blocks one after the other, with the first level in the lowest bits.
@group(0) @binding(5) var<storage, read> levels: array<chunk>;
// elem [outputs, BLOCKS].
@group(0) @binding(6) var<storage, read> scales: array<elem>;
// [outputs, ceil(BLOCKS * BITS / 8)] bytes.
@group(0) @binding(7) var<storage, read> zero_points: array<u32>;

override BITS: u32;
override BLOCKS: u32;
override HAS_ZERO_POINTS: bool;

fn zero_point(row: u32, block: u32) -> f32 {
  if (!HAS_ZERO_POINTS) {
    return f32(1u << (BITS - 1u));
  }
  let per_byte = 8u / BITS;
  let byte = row * ((BLOCKS + per_byte - 1u) / per_byte) + block / per_byte;
  let level = zero_points[byte / 4u] >> ((byte % 4u) * 8u + (block % per_byte) * BITS);
  return f32(level & ((1u << BITS) - 1u));
}
