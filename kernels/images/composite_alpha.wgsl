// Multiplies an image's alpha by a mask of another size, in place:
//
//   alpha[y, x] = floor(clamp(Σ_j v[y, j] Σ_i u[x, i] mask[rows[y].first + j, columns[x].first + i], 0, 1)
//                       · alpha[y, x] + 0.5)
//
// summed in f32; NaN counts as 0. Pixels whose alpha becomes 0 also lose their colours; other colours stay.
//
//   mask            f32 [masks, maskHeight, maskWidth]; this image's begins at `start`
//   columns         Span [width]
//   column_weights  f32 [width, column_stride]     u; a row adds up to 1
//   rows            Span [height]
//   row_weights     f32 [height, row_stride]       v; a row adds up to 1
//   sizes           Sizes
//   image           u32 [height, width]           red in the lowest byte, alpha in the highest
//
// Each invocation makes one pixel. No workgroup memory.

struct Span {
  first: u32,
  count: u32,
}

struct Sizes {
  width: u32,
  height: u32,
  mask_width: u32,
  start: u32,
  column_stride: u32,
  row_stride: u32,
}

@group(0) @binding(0) var<storage, read> mask: array<f32>;
@group(0) @binding(1) var<storage, read> columns: array<Span>;
@group(0) @binding(2) var<storage, read> column_weights: array<f32>;
@group(0) @binding(3) var<storage, read> rows: array<Span>;
@group(0) @binding(4) var<storage, read> row_weights: array<f32>;
@group(0) @binding(5) var<storage, read> sizes: Sizes;
@group(0) @binding(6) var<storage, read_write> image: array<u32>;

override WG_X: u32;
override WG_Y: u32;

@compute @workgroup_size(WG_X, WG_Y)
fn composite_alpha(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= sizes.width || id.y >= sizes.height) {
    return;
  }
  let column = columns[id.x];
  let row = rows[id.y];
  var sum = 0.0;
  for (var j = 0u; j < row.count; j++) {
    let start = sizes.start + (row.first + j) * sizes.mask_width + column.first;
    var across = 0.0;
    for (var i = 0u; i < column.count; i++) {
      across += column_weights[id.x * sizes.column_stride + i] * mask[start + i];
    }
    sum += row_weights[id.y * sizes.row_stride + j] * across;
  }
  let at = id.y * sizes.width + id.x;
  let pixel = image[at];
  let alpha = select(0.0, min(sum, 1.0), sum > 0.0);
  let product = u32(alpha * f32(pixel >> 24u) + 0.5);
  image[at] = select((pixel & 0xffffffu) | (product << 24u), 0u, product == 0u);
}
