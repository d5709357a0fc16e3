// Resizes the rows of an image to another width; the first half of resize_normalize:
//
//   wide[j, x] = level(Σ_i weights[x, i] image[j, columns[x].first + i])
//
// summed in f32 over columns[x].count pixels and rounded half up to 0…255, each channel by itself; alpha is copied but
// not used.
//
//   image    u32 [height, width]           red in the lowest byte
//   columns  Span [contentWidth]
//   weights  f32 [contentWidth, stride]    a row adds up to 1
//   sizes    Sizes
//   wide     u32 [height, contentWidth]
//
// Each invocation makes one pixel. No workgroup memory.

struct Span {
  first: u32,
  count: u32,
}

struct Sizes {
  width: u32,
  height: u32,
  content_width: u32,
  stride: u32,
}

@group(0) @binding(0) var<storage, read> image: array<u32>;
@group(0) @binding(1) var<storage, read> columns: array<Span>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read> sizes: Sizes;
@group(0) @binding(4) var<storage, read_write> wide: array<u32>;

override WG_X: u32;
override WG_Y: u32;

@compute @workgroup_size(WG_X, WG_Y)
fn resize_rows(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= sizes.content_width || id.y >= sizes.height) {
    return;
  }
  let span = columns[id.x];
  let start = id.y * sizes.width + span.first;
  let row = id.x * sizes.stride;
  var sum = vec4(0.0);
  for (var i = 0u; i < span.count; i++) {
    sum += weights[row + i] * unpack4x8unorm(image[start + i]);
  }
  wide[id.y * sizes.content_width + id.x] = pack4x8unorm(sum);
}
