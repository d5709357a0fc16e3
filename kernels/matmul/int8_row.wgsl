// The product of one row in 8 bits with weights of 4 bits. The row is processed in stages of $BLOCKS blocks. All loads
// of a stage are in flight together, and each workgroup rounds the row by itself while it waits for its weights. See
// int8_source.ts.

// By block, the words with elements at even indices, and the words with elements at odd indices.
var<workgroup> even_words: array<vec4<u32>, $BLOCKS>;
var<workgroup> odd_words: array<vec4<u32>, $BLOCKS>;
var<workgroup> row_scales: array<f32, $BLOCKS>;
// By block, with one component for each unit of eight elements.
var<workgroup> largest: array<vec4<f32>, $BLOCKS>;
var<workgroup> level_sums: array<vec4<i32>, $BLOCKS>;
//# if HAS_NORM
var<workgroup> squares: array<f32, $UNITS>;
var<workgroup> gathered: array<f32, $GATHERERS>;
//# end
// Scaled products of the blocks of each output; one float of padding per output avoids conflicts of memory banks.
var<workgroup> products: array<f32, $(OUTS * (BLOCKS + 1))>;
var<workgroup> totals: array<f32, $OUTS>;

@compute @workgroup_size($THREADS)
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let first = group.x * $(GROUP_OUTPUTS)u;
  var total = 0.0;
  //# if HAS_NORM
  var squares_sum = 0.0;
  //# end
  for (var base = 0u; base < $(BLOCKS_OF_ROW)u; base += $(BLOCKS)u) {
    // Loads the weights of a block of an output, and their scale.
    //# for i in 0..ITEM_SLOTS
    let out$i = (thread + $(i * THREADS)u) / $(BLOCKS)u;
    let block$i = (thread + $(i * THREADS)u) % $(BLOCKS)u;
    var chunk$i: vec4<u32>;
    var scale$i: f32;
    //# if HAS_ZERO_POINTS
    var zero$i: i32;
    //# end
    //# if ITEMS < (i + 1) * THREADS
    if (thread < $(ITEMS - i * THREADS)u)
    //# end
    {
      let row = matrix_row(first, out$i);
      let scale_at = (base + block$i) / $(BLOCKS_OF_SCALE)u;
      chunk$i = levels[row * $(BLOCKS_OF_ROW)u + base + block$i];
      scale$i = f32(scales[row * BLOCKS + scale_at]);
      //# if HAS_ZERO_POINTS
      zero$i = i32(zero_point(row, scale_at));
      //# end
    }
    //# end
    // Each thread loads eight elements of the row, and shares their maximum.
    //# for i in 0..UNIT_SLOTS
    var a$i: vec4<f32>;
    var b$i: vec4<f32>;
    //# if UNITS < (i + 1) * THREADS
    if (thread < $(UNITS - i * THREADS)u)
    //# end
    {
      let unit = thread + $(i * THREADS)u;
      let at = (base * 4u + unit) * 2u;
      let raw_a = row_four(0u, 0u, at);
      let raw_b = row_four(0u, 0u, at + 1u);
      //# if HAS_NORM
      squares[unit] = squares_of(raw_a, raw_b);
      a$i = raw_a * unpack(affine[AFFINE_AT + at]);
      b$i = raw_b * unpack(affine[AFFINE_AT + (at + 1u)]);
      //# else
      a$i = raw_a;
      b$i = raw_b;
      //# end
      largest[unit / 4u][unit % 4u] = largest_of(a$i, b$i);
    }
    //# end
    workgroupBarrier();
    //# for i in 0..UNIT_SLOTS
    //# if UNITS < (i + 1) * THREADS
    if (thread < $(UNITS - i * THREADS)u)
    //# end
    {
      let unit = thread + $(i * THREADS)u;
      let block = unit / 4u;
      let each = largest[block];
      let most = max(max(each.x, each.y), max(each.z, each.w));
      let words = to_levels(a$i, b$i, inverse_of(most));
      even_words[block][unit % 4u] = words.x;
      odd_words[block][unit % 4u] = words.y;
      level_sums[block][unit % 4u] = sum_of_levels(words);
      if (unit % 4u == 0u) {
        row_scales[block] = most / 127.0;
      }
    }
    //# end
    //# if HAS_NORM
    if (thread < $(GATHERERS)u) {
      for (var unit = thread; unit < $(UNITS)u; unit += $(GATHERERS)u) {
        squares_sum += squares[unit];
      }
    }
    //# end
    workgroupBarrier();
    //# for i in 0..ITEM_SLOTS
    //# if ITEMS < (i + 1) * THREADS
    if (thread < $(ITEMS - i * THREADS)u)
    //# end
    {
      let even = chunk$i & vec4<u32>(0x0f0f0f0fu);
      let odd = (chunk$i >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
      let even_row = even_words[block$i];
      let odd_row = odd_words[block$i];
      let sums = level_sums[block$i];
      let sum = sums.x + sums.y + sums.z + sums.w;
      //# if HAS_ZERO_POINTS
      let begin = $MAGIC - zero$i * sum;
      //# else
      let begin = $MAGIC - 8 * sum;
      //# end
      let product = begin + dot4I8Packed(even_row.x, even.x) + dot4I8Packed(even_row.y, even.y) +
        dot4I8Packed(even_row.z, even.z) + dot4I8Packed(even_row.w, even.w) +
        dot4I8Packed(odd_row.x, odd.x) + dot4I8Packed(odd_row.y, odd.y) +
        dot4I8Packed(odd_row.z, odd.z) + dot4I8Packed(odd_row.w, odd.w);
      products[out$i * $(BLOCKS + 1)u + block$i] = (bitcast<f32>(product) - $MAGIC_FLOAT) * scale$i;
    }
    //# end
    workgroupBarrier();
    if (thread < $(OUTS)u) {
      for (var block = 0u; block < $(BLOCKS)u; block += $(STEP)u) {
        let at = thread * $(BLOCKS + 1)u + block;
        //# for i in 0..STEP
        let product$i = products[at + $(i)u];
        let scale$i = row_scales[block + $(i)u];
        //# end
        //# for i in 0..STEP
        total = fma(product$i, scale$i, total);
        //# end
      }
    }
    //# if BLOCKS < BLOCKS_OF_ROW
    workgroupBarrier();
    //# end
  }
  //# if HAS_NORM
  if (thread < $(GATHERERS)u) { gathered[thread] = squares_sum; }
  //# end
  if (thread < $(OUTS)u) { totals[thread] = total; }
  workgroupBarrier();
  let n = first + thread;
  if (thread < $(GROUP_OUTPUTS)u && n < N) {
    //# if IS_GATED
    let sums_of = vec2<f32>(totals[thread], totals[thread + $(GROUP_OUTPUTS)u]);
    //# else
    let sums_of = vec2<f32>(totals[thread], 0.0);
    //# end
    //# if HAS_NORM
    finish(n, 0u, sums_of * row_factor());
    //# else
    finish(n, 0u, sums_of);
    //# end
  }
}

//# if HAS_NORM
fn row_factor() -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < $(GATHERERS)u; i++) {
    sum += gathered[i];
  }
  return inverseSqrt(sum / f32(K_FOURS * 4u) + EPSILON);
}
//# end
