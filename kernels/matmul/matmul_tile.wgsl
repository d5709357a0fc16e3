// Products of many rows. A workgroup takes a tile of $TILE rows and $TILE columns, which are outputs of the matrix, and
// stages $DEPTH elements along K at a time. Each thread computes the sums of four rows and eight columns. See
// matvec_source.ts.

var<workgroup> x_tile: array<vec4<f32>, $(DEPTH * QUADS)>;
var<workgroup> w_tile: array<vec4<f32>, $(DEPTH * QUADS)>;

//# if IS_NBITS
// Four elements of a matrix row: its `at`-th vec4.
fn matrix_four(row: u32, at: u32) -> vec4<f32> {
  let word = at / $(PER_WORD)u;
  let value = levels[row * $(CHUNKS)u + word / $(CHUNK_WORDS)u][word % $(CHUNK_WORDS)u];
  //# if IS_BYTES
  let four = vec4<f32>(unpack4xU8(value));
  //# else
  let part = value >> ((at % $(PER_WORD)u) * $(4 * BITS)u);
  let shifts = vec4<u32>(0u, $(BITS)u, $(2 * BITS)u, $(3 * BITS)u);
  let four = vec4<f32>((vec4<u32>(part) >> shifts) & vec4<u32>($(MASK)u));
  //# end
  let block = at / $(BLOCK_FOURS)u;
  //# if HAS_ZERO_POINTS
  let zero = zero_point(row, block);
  //# else
  let zero = $HALF.0;
  //# end
  return (four - zero) * f32(scales[row * BLOCKS + block]);
}
//# end

@compute @workgroup_size($THREADS)
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row0 = group.y * $(TILE)u;
  let outputs = outputs_per_unit();
  // The part that this thread stages: four rows and four columns, and one vec4 along K.
  let quad = thread % $(QUADS)u;
  let depth = thread / $(QUADS)u;
  let staged = (group.x * $(LANES)u + quad % $(LANES)u) * outputs;
  //# if IS_COLUMNS
  let column = matrix_row(staged, (quad / $(LANES)u) * 4u);
  //# else
  //# for c in 0..4
  let matrix_row$c = matrix_row(staged, (quad / $(LANES)u) * 4u + $(c)u);
  //# end
  //# end
  // The part that this thread sums: four rows, and two groups of four columns.
  let lane = thread % $(LANES)u;
  let row_quad = thread / $(LANES)u;
  //# for r in 0..4
  var x$r: vec4<f32>;
  var w$r: vec4<f32>;
  var sum$(r)_0 = vec4<f32>();
  var sum$(r)_1 = vec4<f32>();
  //# end
  var squares = vec4<f32>();
  // The first stage is loaded before the loop, and each later one while the previous stage is multiplied.
  //# for later in 0..2
  //# if later
  for (var at = 0u; at < $(K_FOURS)u; at += $(DEPTH / 4)u) {
    workgroupBarrier();
    {
      //# if HAS_NORM
      squares += vec4<f32>(dot(x0, x0), dot(x1, x1), dot(x2, x2), dot(x3, x3));
      let factor = unpack(affine[AFFINE_AT + at + depth]);
      //# if HAS_OFFSETS
      let offset = unpack(affine[AFFINE_AT + K_FOURS + at + depth]);
      //# else
      let offset = vec4<f32>();
      //# end
      //# for r in 0..4
      x$r = x$r * factor + offset;
      //# end
      //# end
      let to = depth * $(4 * QUADS)u + quad;
      //# for e, i in x 0, y 1, z 2, w 3
      x_tile[to + $(i * QUADS)u] = vec4<f32>(x0.$e, x1.$e, x2.$e, x3.$e);
      //# if IS_COLUMNS
      w_tile[to + $(i * QUADS)u] = w$i;
      //# else
      w_tile[to + $(i * QUADS)u] = vec4<f32>(w0.$e, w1.$e, w2.$e, w3.$e);
      //# end
      //# end
    }
    workgroupBarrier();
    if (at + $(DEPTH / 4)u < $(K_FOURS)u) {
      let next = at + $(DEPTH / 4)u + depth;
  //# else
  {
      let next = depth;
  //# end
      //# for r in 0..4
      x$r = row_four(row0, quad * 4u + $(r)u, next);
      //# if IS_COLUMNS
      w$r = load_columns(next * 4u + $(r)u, column);
      //# end
      //# if IS_ROWS
      w$r = unpack(weights[matrix_row$r * K_FOURS + next]);
      //# end
      //# if IS_NBITS
      w$r = matrix_four(matrix_row$r, next);
      //# end
      //# end
    }
  //# end
    for (var k = 0u; k < $(DEPTH * QUADS)u; k += $(STEPS * QUADS)u) {
      //# for step in 0..STEPS
      {
        let a = x_tile[k + $(step * QUADS)u + row_quad];
        let b0 = w_tile[k + $(step * QUADS)u + lane];
        let b1 = w_tile[k + $(step * QUADS + LANES)u + lane];
        //# for r in 0..4
        //# for h in 0..2
        sum$(r)_$h = fma(vec4<f32>(a[$r]), b$h, sum$(r)_$h);
        //# end
        //# end
      }
      //# end
    }
  }
  //# if HAS_NORM
  workgroupBarrier();
  x_tile[depth * $(QUADS)u + quad] = squares;
  workgroupBarrier();
  var all = x_tile[row_quad];
  //# for d in 1..(DEPTH / 4)
  all += x_tile[$(d * QUADS)u + row_quad];
  //# end
  let scale = inverseSqrt(all / f32(K_FOURS * 4u) + EPSILON);
  //# for r in 0..4
  sum$(r)_0 *= scale[$r];
  sum$(r)_1 *= scale[$r];
  //# end
  //# end
  let n = (group.x * $(LANES)u + lane) * outputs;
  //# for r in 0..4
  {
    let row = row0 + row_quad * 4u + $(r)u;
    //# for e in 0..4
    //# if IS_GATED
    if (n + $(e)u < N) { finish(n + $(e)u, row, vec2<f32>(sum$(r)_0[$e], sum$(r)_1[$e])); }
    //# else
    //# for h in 0..2
    if (n + $(4 * h + e)u < N) { finish(n + $(4 * h + e)u, row, vec2<f32>(sum$(r)_$h[$e], 0.0)); }
    //# end
    //# end
    //# end
  }
  //# end
}
