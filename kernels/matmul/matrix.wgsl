// The matrix of a product in its stored format, and `finish`, which turns a row's sums into outputs: bias, activation,
// gate, scale, soft cap and residual. See matvec.ts for the formula. With IS_LOOPED, `accumulate` adds up the products
// with the matrix; other kernels have unrolled loops of their own.

//# if !HAS_SUM
@group(0) @binding(2) var<storage, read> bias: array<elem>;
@group(0) @binding(3) var<storage, read> residual: array<elem>;
//# end
@group(0) @binding(4) var<storage, read_write> out: array<elem>;

// Number of outputs per row, and their layout in the output tensor.
override N: u32;
override OUT_STRIDE: u32;
override OUT_OFFSET: u32;
// Number of matrix rows that a unit sums; if gated, half of them are the gate's.
override OUTS: u32;
override HAS_BIAS: bool;
override HAS_RESIDUAL: bool;
// Whether an output is `activate(gate) * up`, from two rows of the matrix.
override IS_GATED: bool;
override GATE_ROW: u32;
override UP_ROW: u32;
// Number of the activation; see `activate`.
override ACTIVATION: u32;
override SCALE: f32;
// 0 for none.
override SOFTCAP: f32;

fn outputs_per_unit() -> u32 {
  return select(OUTS, OUTS / 2u, IS_GATED);
}

// The matrix row of a unit's `o`-th sum.
fn matrix_row(first: u32, o: u32) -> u32 {
  if (!IS_GATED) {
    return min(first + o, N - 1u);
  }
  let half = OUTS / 2u;
  let n = min(first + o % half, N - 1u);
  return n + select(GATE_ROW, UP_ROW, o >= half);
}

fn finish(n: u32, row: u32, sums_of: vec2<f32>) {
  var value = activate(ACTIVATION, with_bias(n + select(0u, GATE_ROW, IS_GATED), sums_of.x));
  if (IS_GATED) {
    value *= with_bias(n + UP_ROW, sums_of.y);
  }
  value *= SCALE;
  if (SOFTCAP > 0.0) {
    value = SOFTCAP * bounded_tanh(value / SOFTCAP);
  }
  //# if !HAS_SUM
  if (HAS_RESIDUAL) {
    value += f32(residual[row * N + n]);
  }
  //# end
  out[row * OUT_STRIDE + OUT_OFFSET + n] = elem(value);
}

fn with_bias(n: u32, sum: f32) -> f32 {
  if (HAS_BIAS) {
    //# if HAS_SUM
    return sum + unpack(affine[BIAS_AT + n / 4u])[n % 4u];
    //# else
    return sum + f32(bias[n]);
    //# end
  }
  return sum;
}

//# if IS_ROWS
// [outputs, K], one row per output.
@group(0) @binding(5) var<storage, read> weights: array<four>;
//# if IS_LOOPED

fn accumulate(first: u32, row0: u32, lane: u32) {
  for (var at = lane; at < K_FOURS; at += LANES) {
    var of_outputs: array<vec4<f32>, MAX_OUTS>;
    for (var o = 0u; o < OUTS; o++) {
      of_outputs[o] = unpack(weights[matrix_row(first, o) * K_FOURS + at]);
    }
    add_products(&of_outputs, row0, at);
  }
}
//# end
//# end
//# if IS_COLUMNS
// [K, outputs], the layout of the operator MatMul. A unit is four neighbouring columns; if gated, also the four columns
// that these are multiplied with.

// Number of columns in the matrix.
override COLUMNS: u32;

//# if IS_ALIGNED
// Four neighbouring columns of a matrix whose number of columns is a multiple of four.
@group(0) @binding(5) var<storage, read> weights: array<four>;

fn load_columns(row: u32, column: u32) -> vec4<f32> {
  return unpack(weights[(row * COLUMNS + column) / 4u]);
}
//# else
// Four neighbouring columns of a matrix of any width. Columns beyond the last are replaced by it, and their results are
// dropped.
@group(0) @binding(5) var<storage, read> weights: array<elem>;

fn load_columns(row: u32, column: u32) -> vec4<f32> {
  let columns = min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(COLUMNS - 1u));
  let at = row * COLUMNS + columns;
  return vec4<f32>(
    f32(weights[at.x]),
    f32(weights[at.y]),
    f32(weights[at.z]),
    f32(weights[at.w]),
  );
}
//# end
//# if IS_LOOPED

fn accumulate(first: u32, row0: u32, lane: u32) {
  for (var at = lane; at < K_FOURS; at += LANES) {
    var of_outputs: array<vec4<f32>, MAX_OUTS>;
    for (var q = 0u; q < OUTS / 4u; q++) {
      let column = matrix_row(first, q * 4u);
      let w0 = load_columns(at * 4u, column);
      let w1 = load_columns(at * 4u + 1u, column);
      let w2 = load_columns(at * 4u + 2u, column);
      let w3 = load_columns(at * 4u + 3u, column);
      of_outputs[q * 4u] = vec4<f32>(w0.x, w1.x, w2.x, w3.x);
      of_outputs[q * 4u + 1u] = vec4<f32>(w0.y, w1.y, w2.y, w3.y);
      of_outputs[q * 4u + 2u] = vec4<f32>(w0.z, w1.z, w2.z, w3.z);
      of_outputs[q * 4u + 3u] = vec4<f32>(w0.w, w1.w, w2.w, w3.w);
    }
    add_products(&of_outputs, row0, at);
  }
}
//# end
//# end
//# if IS_NBITS
// [outputs, K], levels of 1, 2, 4 or 8 bits in blocks, as in com.microsoft's MatMulNBits: `(level - zero) * scale`.

// The part of a quantised row that is read at a time: at most a block.
alias chunk = $CHUNK;

// A row's blocks one after the other, with the first level in the lowest bits.
@group(0) @binding(5) var<storage, read> levels: array<chunk>;
// elem [outputs, BLOCKS].
@group(0) @binding(6) var<storage, read> scales: array<elem>;
//# if HAS_FLOAT_ZERO_POINTS
// elem [outputs, BLOCKS].
@group(0) @binding(7) var<storage, read> zero_points: array<elem>;
//# else
// [outputs, ceil(BLOCKS * BITS / 8)] bytes.
@group(0) @binding(7) var<storage, read> zero_points: array<u32>;
//# end

override BITS: u32;
override BLOCKS: u32;
override HAS_ZERO_POINTS: bool;

fn zero_point(row: u32, block: u32) -> f32 {
  if (!HAS_ZERO_POINTS) {
    return f32(1u << (BITS - 1u));
  }
  //# if HAS_FLOAT_ZERO_POINTS
  return f32(zero_points[row * BLOCKS + block]);
  //# else
  let per_byte = 8u / BITS;
  let byte = row * ((BLOCKS + per_byte - 1u) / per_byte) + block / per_byte;
  let level = zero_points[byte / 4u] >> ((byte % 4u) * 8u + (block % per_byte) * BITS);
  return f32(level & ((1u << BITS) - 1u));
  //# end
}
//# if IS_LOOPED

override CHUNKS_PER_BLOCK: u32;
// Whether the last block extends beyond K.
override IS_PADDED: bool;

// Four levels of a word: its `part`-th group of four.
fn four_levels(word: u32, part: u32) -> vec4<f32> {
  let shifts = vec4<u32>(part * 4u * BITS) + BITS * vec4<u32>(0u, 1u, 2u, 3u);
  return vec4<f32>((vec4<u32>(word) >> shifts) & vec4<u32>((1u << BITS) - 1u));
}

fn accumulate(first: u32, row0: u32, lane: u32) {
  let parts = 8u / BITS;
  for (var c = lane; c < BLOCKS * CHUNKS_PER_BLOCK; c += LANES) {
    let block = c / CHUNKS_PER_BLOCK;
    var words: array<chunk, MAX_OUTS>;
    var scale: array<f32, MAX_OUTS>;
    var zero: array<f32, MAX_OUTS>;
    for (var o = 0u; o < OUTS; o++) {
      let row = matrix_row(first, o);
      words[o] = levels[row * BLOCKS * CHUNKS_PER_BLOCK + c];
      scale[o] = f32(scales[row * BLOCKS + block]);
      zero[o] = zero_point(row, block);
    }
    for (var w = 0u; w < $(CHUNK_WORDS)u; w++) {
      for (var part = 0u; part < parts; part++) {
        let at = (c * $(CHUNK_WORDS)u + w) * parts + part;
        if (IS_PADDED && at >= K_FOURS) {
          continue;
        }
        var of_outputs: array<vec4<f32>, MAX_OUTS>;
        for (var o = 0u; o < OUTS; o++) {
          of_outputs[o] = (four_levels(words[o][w], part) - zero[o]) * scale[o];
        }
        add_products(&of_outputs, row0, at);
      }
    }
  }
}
//# end
//# end
