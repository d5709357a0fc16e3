// Resizes an image, first its width and then its height, and writes it into a model's input:
//
//   wide[j, x] = level(Σ_i weights[x, i] image[j, columns[x].first + i])                               resize_rows
//   output[c, y, x] = scale[c] · level(Σ_j weights[y, j] wide[rows[y].first + j, x, c]) + offset[c]    resize_normalize
//
// for x and y within the content, and 0 in the rest of the tensor. Sums are in f32, and rounded half up to 0…255, each
// channel by itself; alpha is resized into `wide` but not used.
//
//   image    u32 [height, width]           red in the lowest byte
//   columns  Span [contentWidth]
//   rows     Span [contentHeight]
//   weights  f32 [contentWidth or contentHeight, stride]    a row adds up to 1
//   wide     u32 [height, contentWidth]    called `resized` in the second kernel
//   output   f32 [images, 3, height, width] or [images, height, width, 3]; this image's begins at `start`
//
// An element of channel c lies at start + c · channel_step + (y · width + x) · pixel_step. Each invocation makes one
// pixel. No workgroup memory.

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

struct Format {
  scale: vec3<f32>,
  width: u32,
  offset: vec3<f32>,
  height: u32,
  content_width: u32,
  content_height: u32,
  stride: u32,
  start: u32,
  channel_step: u32,
  pixel_step: u32,
}

override WG_X: u32;
override WG_Y: u32;

@group(0) @binding(0) var<storage, read> image: array<u32>;
@group(0) @binding(1) var<storage, read> columns: array<Span>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read> sizes: Sizes;
@group(0) @binding(4) var<storage, read_write> wide: array<u32>;

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

@group(0) @binding(0) var<storage, read> resized: array<u32>;
@group(0) @binding(1) var<storage, read> rows: array<Span>;
@group(0) @binding(3) var<storage, read> format: Format;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(WG_X, WG_Y)
fn resize_normalize(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= format.width || id.y >= format.height) {
    return;
  }
  var value = vec3(0.0);
  if (id.x < format.content_width && id.y < format.content_height) {
    let span = rows[id.y];
    let row = id.y * format.stride;
    for (var j = 0u; j < span.count; j++) {
      let pixel = resized[(span.first + j) * format.content_width + id.x];
      value += weights[row + j] * unpack4x8unorm(pixel).xyz;
    }
    let level = floor(clamp(value, vec3(0.0), vec3(1.0)) * 255.0 + 0.5);
    value = format.scale * level + format.offset;
  }
  let at = format.start + (id.y * format.width + id.x) * format.pixel_step;
  output[at] = value.x;
  output[at + format.channel_step] = value.y;
  output[at + 2u * format.channel_step] = value.z;
}
