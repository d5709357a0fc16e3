// Both products for many rows: the rows of each expert are multiplied with its matrices in tiles. See
// experts_source.ts.
//
// In the first product, `out[row, j]` is the activated output of a row's `j`-th expert. The second product computes the
// outputs that combine.wgsl weights and adds up. A workgroup takes a tile of $TILE_ROWS rows and $COLUMNS columns,
// which are rows of a matrix. It stages $DEPTH elements along K at a time. If the matrix is gated, the first half of a
// tile's columns belongs to the gate.

// Number of tiles, offset of the tiles' pairs, the expert of each tile, and the pairs of each tile.
@group(0) @binding(5) var<storage, read> order: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

const ROW_QUADS = $(TILE_ROWS / 4)u;
const COLUMN_QUADS = $(COLUMNS / 4)u;
// Each thread sums four rows and two groups of four columns, which are HALF groups apart.
const HALF = $(COLUMNS / 8)u;
// Marks an unused entry of a tile.
const NO_PAIR = 0xffffffffu;

var<workgroup> x_tile: array<vec4<f32>, $(DEPTH * TILE_ROWS / 4)>;
var<workgroup> w_tile: array<vec4<f32>, $(DEPTH * COLUMNS / 4)>;

//# part load
    //# for r in 0..4
    x$r = x_four(start$r + $from + depth);
    //# end
    //# for c in 0..8
    w$c = weight_four(column$c, $from + depth);
    //# end
//# end
@compute @workgroup_size($THREADS)
fn experts_many(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  if (group.y >= order[0]) {
    return;
  }
  let expert = order[$(ORDER_HEADER)u + group.y];
  let base = expert * $(MATRIX_ROWS)u;
  let first = group.x * $(TILE_OUTPUTS)u;
  let tile_start = order[1] + group.y * $(TILE_ROWS)u;
  // The part that this thread stages: four rows, two groups of four columns, and one vec4 along K.
  let quad = thread % HALF;
  let depth = thread / HALF;
  //# for r in 0..4
  // Unused entries are replaced by the tile's first pair, which always exists.
  let listed$r = order[tile_start + quad * 4u + $(r)u];
  let pair$r = select(listed$r, order[tile_start], listed$r == NO_PAIR);
  let start$r = pair$r / $(PER_ROW)u * $(X_STRIDE)u + $(X_OFFSET)u;
  //# end
  //# for c in 0..8
  let n$c = min(first + quad * 4u + $(c % 4 + c / 4 * (TILE_OUTPUTS - COLUMNS / 2))u, $(OUTPUTS - 1)u);
  let column$c = base + n$c * $(STEP)u + $(GATE + c / 4 * (UP - GATE))u;
  //# end
  // The part that this thread sums: four rows, and two groups of four columns.
  let lane = thread % HALF;
  let row_quad = thread / HALF;
  //# for r in 0..4
  var x$r: vec4<f32>;
  //# end
  //# for c in 0..8
  var w$c: vec4<f32>;
  //# end
  //# for r in 0..4
  var sum$r_0 = vec4<f32>();
  var sum$r_1 = vec4<f32>();
  //# end
  //# put load from 0u
  for (var at = 0u; at < $(K / 4)u; at += $(DEPTH / 4)u) {
    workgroupBarrier();
    //# for e, i in x 0, y 1, z 2, w 3
    x_tile[(depth * 4u + $(i)u) * ROW_QUADS + quad] = vec4<f32>(x0.$e, x1.$e, x2.$e, x3.$e);
    w_tile[(depth * 4u + $(i)u) * COLUMN_QUADS + quad] = vec4<f32>(w0.$e, w1.$e, w2.$e, w3.$e);
    w_tile[(depth * 4u + $(i)u) * COLUMN_QUADS + quad + HALF] =
      vec4<f32>(w4.$e, w5.$e, w6.$e, w7.$e);
    //# end
    workgroupBarrier();
    if (at + $(DEPTH / 4)u < $(K / 4)u) {
      let next = at + $(DEPTH / 4)u;
      //# put load from next
    }
    // Eight unrolled steps along K in each iteration.
    for (var k = 0u; k < $(DEPTH)u; k += 8u) {
      //# for i in 0..8
      {
        let a = x_tile[(k + $(i)u) * ROW_QUADS + row_quad];
        let b0 = w_tile[(k + $(i)u) * COLUMN_QUADS + lane];
        let b1 = w_tile[(k + $(i)u) * COLUMN_QUADS + lane + HALF];
        //# for r in 0..4
        sum$r_0 = fma(vec4<f32>(a[$r]), b0, sum$r_0);
        sum$r_1 = fma(vec4<f32>(a[$r]), b1, sum$r_1);
        //# end
      }
      //# end
    }
  }
  //# for r in 0..4
  {
    let pair = order[tile_start + row_quad * 4u + $(r)u];
    if (pair != NO_PAIR) {
      //# for e in 0..TILE_OUTPUTS / HALF
      {
        let n = first + lane * 4u + $(e % 4 + e / 4 * COLUMNS / 2)u;
        if (n < $(OUTPUTS)u) {
          let sum = sum$r_$(e / 4)[$(e % 4)] + bias_at(expert, n * $(STEP)u + $(GATE)u);
          //# if IS_FIRST
          //# if IS_GATED
          let up = sum$r_1[$(e % 4)] + bias_at(expert, n * $(STEP)u + $(UP)u);
          //# else
          let up = 0.0;
          //# end
          out[pair * $(OUTPUTS)u + n] = activated(sum, up);
          //# else
          out[pair * $(OUTPUTS)u + n] = sum;
          //# end
        }
      }
      //# end
    }
  }
  //# end
}
