// Adds up the weighted outputs of a row's experts, in order. See experts.ts for the formula. One thread sums one vec4
// of a row.

// f32 [rows, TOP_K, FOURS * 4].
@group(0) @binding(0) var<storage, read> products: array<vec4<f32>>;
// An expert and the bits of its weight: [rows, TOP_K].
@group(0) @binding(1) var<storage, read> routes: array<vec2<u32>>;
// elem [rows, FOURS * 4].
@group(0) @binding(2) var<storage, read_write> out: array<four>;

// Number of vec4s in a row.
override FOURS: u32;
override TOP_K: u32;

const THREADS = 64u;

@compute @workgroup_size(THREADS)
fn combine(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let at = group.x * THREADS + thread;
  if (at >= FOURS) {
    return;
  }
  let row = group.y;
  var sum = vec4<f32>();
  for (var j = 0u; j < TOP_K; j++) {
    let pair = row * TOP_K + j;
    sum += bitcast<f32>(routes[pair].y) * products[pair * FOURS + at];
  }
  out[row * FOURS + at] = pack(sum);
}
