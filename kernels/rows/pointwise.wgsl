// Elementwise operations on few rows. See row_kernels.ts for formula and shapes.
//
// One thread takes one element.

@group(0) @binding(0) var<storage, read> a: array<elem_of_a>;
@group(0) @binding(1) var<storage, read> b: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

override WIDTH: u32;
override A_STRIDE: u32;
override A_OFFSET: u32;
// 0 if one row is used for all.
override B_STRIDE: u32;
override B_OFFSET: u32;
// Number of neighbouring elements of a row that one element of b is used for.
override B_REPEATS: u32;
// 0 for none, 1 for sum, 2 for product, 3 for maximum, 4 for minimum.
override OPERATION: u32;
override ACTIVATION: u32;
override SCALE: f32;

const THREADS = 64u;

@compute @workgroup_size(THREADS)
fn pointwise(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let column = group.x * THREADS + thread;
  let row = group.y;
  if (column >= WIDTH) {
    return;
  }
  var value = activate(ACTIVATION, f32(a[row * A_STRIDE + A_OFFSET + column]));
  if (OPERATION != 0u) {
    let other = f32(b[row * B_STRIDE + B_OFFSET + column / B_REPEATS]);
    switch (OPERATION) {
      case 1u: { value += other; }
      case 2u: { value *= other; }
      case 3u: { value = max(value, other); }
      default: { value = min(value, other); }
    }
  }
  out[row * WIDTH + column] = elem(value * SCALE);
}
