// Products of rows in 8 bits with weights of 4 bits. Each workgroup takes a tile of $ROWS rows and $COLUMNS columns,
// and stages $DEPTH blocks of 32 elements in workgroup memory while the next ones are being loaded. See int8_source.ts.

// Rows in the layout of int8_rows.wgsl: the same buffer, read as words and as factors.
@group(0) @binding(0) var<storage, read> rounded: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> factors: array<vec2<u32>>;

// By stage and lane, then by word. The last entry of a lane is padding, which avoids conflicts of memory banks.
var<workgroup> row_words: array<array<vec4<u32>, $(2 * THREAD_ROWS * DEPTH + 1)>, $(STAGES * ROW_LANES)>;
var<workgroup> row_factors: array<array<vec2<u32>, $(THREAD_ROWS * DEPTH + 1)>, $(STAGES * ROW_LANES)>;
var<workgroup> column_words: array<array<vec4<u32>, $(2 * THREAD_COLUMNS * DEPTH + 1)>, $(STAGES * COLUMN_LANES)>;
// Scale and zero point.
var<workgroup> column_scales: array<array<vec2<f32>, $(THREAD_COLUMNS * DEPTH + 1)>, $(STAGES * COLUMN_LANES)>;

// Loads a stage into registers: words and factors of rows, words of columns and their scales.
//# part load
//# for s in 0..WORD_SLOTS
//# if WORDS < (s + 1) * THREADS
if (thread < $(WORDS - s * THREADS)u)
//# end
{ word$s = rounded[word_at$s + $from * 128u]; }
//# end
//# for s in 0..FACTOR_SLOTS
//# if FACTORS < (s + 1) * THREADS
if (thread < $(FACTORS - s * THREADS)u)
//# end
{ factor$s = factors[factor_at$s + $from * 64u]; }
//# end
//# for s in 0..CHUNK_SLOTS
//# if CHUNKS < (s + 1) * THREADS
if (thread < $(CHUNKS - s * THREADS)u)
//# end
{
  chunk$s = levels[chunk_row$s * $(BLOCKS_OF_ROW)u + $from + chunk_block$s];
  scale$s.x = f32(scales[chunk_row$s * BLOCKS + ($from + chunk_block$s) / $(BLOCKS_OF_SCALE)u]);
  //# if HAS_ZERO_POINTS
  scale$s.y = zero_point(chunk_row$s, ($from + chunk_block$s) / $(BLOCKS_OF_SCALE)u);
  //# end
}
//# end
//# end

// Stores a stage in workgroup memory, and separates the columns' levels at even indices from those at odd indices.
//# part store
//# for s in 0..WORD_SLOTS
//# if WORDS < (s + 1) * THREADS
if (thread < $(WORDS - s * THREADS)u)
//# end
{ row_words[$stage * $(ROW_LANES)u + word_row$s % $(ROW_LANES)u][word_to$s] = word$s; }
//# end
//# for s in 0..FACTOR_SLOTS
//# if FACTORS < (s + 1) * THREADS
if (thread < $(FACTORS - s * THREADS)u)
//# end
{
  //# if HAS_ZERO_POINTS
  row_factors[$stage * $(ROW_LANES)u + factor_row$s % $(ROW_LANES)u][factor_to$s] = factor$s;
  //# else
  // The initial value of a row's products depends only on the row.
  row_factors[$stage * $(ROW_LANES)u + factor_row$s % $(ROW_LANES)u][factor_to$s] = vec2<u32>(factor$s.x, $(MAGIC)u - 8u * factor$s.y);
  //# end
}
//# end
//# for s in 0..CHUNK_SLOTS
//# if CHUNKS < (s + 1) * THREADS
if (thread < $(CHUNKS - s * THREADS)u)
//# end
{
  let lane = $stage * $(COLUMN_LANES)u + chunk_column$s % $(COLUMN_LANES)u;
  let to = chunk_to$s + chunk_block$s * $(THREAD_COLUMNS)u;
  column_words[lane][to] = chunk$s & vec4<u32>(0x0f0f0f0fu);
  column_words[lane][to + $(THREAD_COLUMNS)u] = (chunk$s >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  column_scales[lane][chunk_to$s] = scale$s;
}
//# end
//# end

// Adds the products of a stage's blocks.
//# part add
let row_at = $stage * $(ROW_LANES)u + row_lane;
let column_at = $stage * $(COLUMN_LANES)u + column_lane;
//# for d in 0..DEPTH
{
  //# for i in 0..THREAD_ROWS
  let even$i = row_words[row_at][$(2 * d * THREAD_ROWS + i)u];
  let odd$i = row_words[row_at][$((2 * d + 1) * THREAD_ROWS + i)u];
  let factor$i = row_factors[row_at][$(d * THREAD_ROWS + i)u];
  let scale$i = bitcast<f32>(factor$i.x);
  let begin$i = bitcast<i32>(factor$i.y);
  //# end
  //# for j in 0..THREAD_COLUMNS
  {
    let even = column_words[column_at][$(2 * d * THREAD_COLUMNS + j)u];
    let odd = column_words[column_at][$((2 * d + 1) * THREAD_COLUMNS + j)u];
    let scale = column_scales[column_at][$(d * THREAD_COLUMNS + j)u];
    //# if HAS_ZERO_POINTS
    let zero = i32(scale.y);
    //# end
    //# for i in 0..THREAD_ROWS
    //# if HAS_ZERO_POINTS
    let start$i = $MAGIC - zero * begin$i;
    //# else
    let start$i = begin$i;
    //# end
    let dots$i = start$i + dot4I8Packed(even$i.x, even.x) + dot4I8Packed(even$i.y, even.y) +
      dot4I8Packed(even$i.z, even.z) + dot4I8Packed(even$i.w, even.w) +
      dot4I8Packed(odd$i.x, odd.x) + dot4I8Packed(odd$i.y, odd.y) +
      dot4I8Packed(odd$i.z, odd.z) + dot4I8Packed(odd$i.w, odd.w);
    sum$(i)_$j = fma((bitcast<f32>(dots$i) - $MAGIC_FLOAT) * scale.x, scale$i, sum$(i)_$j);
    //# end
  }
  //# end
}
//# end
//# end

@compute @workgroup_size($THREADS)
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row0 = group.y * $(ROWS)u;
  let column_lane = thread % $(COLUMN_LANES)u;
  let row_lane = thread / $(COLUMN_LANES)u;
  //# for s in 0..WORD_SLOTS
  let word_row$s = (thread + $(s * THREADS)u) % $(ROWS)u;
  let word_half$s = (thread + $(s * THREADS)u) / $(ROWS)u;
  let word_at$s = levels_at(row0 + word_row$s, 0u, $(BLOCKS_OF_ROW)u) + word_half$s * 64u;
  let word_to$s = word_half$s * $(THREAD_ROWS)u + word_row$s / $(ROW_LANES)u;
  var word$s: vec4<u32>;
  //# end
  //# for s in 0..FACTOR_SLOTS
  let factor_row$s = (thread + $(s * THREADS)u) % $(ROWS)u;
  let factor_block$s = (thread + $(s * THREADS)u) / $(ROWS)u;
  let factor_at$s = factors_at(row0 + factor_row$s, factor_block$s, $(BLOCKS_OF_ROW)u);
  let factor_to$s = factor_block$s * $(THREAD_ROWS)u + factor_row$s / $(ROW_LANES)u;
  var factor$s: vec2<u32>;
  //# end
  //# for s in 0..CHUNK_SLOTS
  let chunk_column$s = (thread + $(s * THREADS)u) / $(DEPTH)u;
  let chunk_block$s = (thread + $(s * THREADS)u) % $(DEPTH)u;
  let chunk_row$s = matrix_row(group.x * $(GROUP_OUTPUTS)u, chunk_column$s);
  let chunk_to$s = chunk_block$s * $(THREAD_COLUMNS)u + chunk_column$s / $(COLUMN_LANES)u;
  var chunk$s: vec4<u32>;
  var scale$s: vec2<f32>;
  //# end
  //# for i in 0..THREAD_ROWS
  //# for j in 0..THREAD_COLUMNS
  var sum$(i)_$j = 0.0;
  //# end
  //# end
  //# put load from 0u
  //# if IS_DOUBLE
  //# put store stage 0u
  workgroupBarrier();
  var stage = 0u;
  //# end
  for (var block = 0u; block < $(BLOCKS_OF_ROW)u; block += $(DEPTH)u) {
    //# if !IS_DOUBLE
    workgroupBarrier();
    //# put store stage 0u
    workgroupBarrier();
    //# end
    let next = min(block + $(DEPTH)u, $(BLOCKS_OF_ROW - DEPTH)u);
    //# put load from next
    //# if IS_DOUBLE
    //# put add stage stage
    stage = 1u - stage;
    //# put store stage stage
    workgroupBarrier();
    //# else
    //# put add stage 0u
    //# end
  }
  //# for i in 0..THREAD_ROWS
  {
    let row = row0 + row_lane + $(i * ROW_LANES)u;
    let factor = row_factor(row);
    //# for j in 0..THREAD_OUTPUTS
    {
      let n = group.x * $(GROUP_OUTPUTS)u + column_lane + $(j * COLUMN_LANES)u;
      //# if IS_GATED
      // The first half of a thread's columns belongs to the gate.
      if (n < N) { finish(n, row, vec2<f32>(sum$(i)_$j, sum$(i)_$(j + THREAD_OUTPUTS)) * factor); }
      //# else
      if (n < N) { finish(n, row, vec2<f32>(sum$(i)_$j, 0.0) * factor); }
      //# end
    }
    //# end
  }
  //# end
}

fn row_factor(row: u32) -> f32 {
  return bitcast<f32>(factors[row_factor_at(row, $(BLOCKS_OF_ROW)u)][row % 2u]);
}
