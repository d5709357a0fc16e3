// Products of rows with a weight matrix; what all forms of the matrix and all ways to loop over it share. See matvec.ts
// for formula and shapes; the entry point is that of matvec_loops.wgsl, matvec_unrolled.ts or matmul_tile.ts.
//
// But for tiles, one workgroup takes ROWS rows and GROUPS units of outputs. A unit is OUTS rows of the matrix, summed by
// some threads along K. A row's sums are added up in an order that ROWS does not change, so a row's result does not depend
// on how many others there are.
//
// Rows are computed in groups of ROWS: tensors have room for the last group.
//
// The rows are `row_four`'s, see matvec_of_*.wgsl.
//
// Workgroup memory: SUMS floats, and 64 for the norm.

@group(0) @binding(0) var<storage, read> x: array<four>;
// From AFFINE_AT on the norm's factors, elem [K], and its offsets, as many, where it has such.
@group(0) @binding(1) var<storage, read> affine: array<four>;
@group(0) @binding(4) var<storage, read_write> out: array<elem>;

// Fours of a row, all of it and where it begins in the tensor.
override K_FOURS: u32;
override X_STRIDE: u32;
override X_OFFSET: u32;
// Outputs of a row, and where they go in the tensor's.
override N: u32;
override OUT_STRIDE: u32;
override OUT_OFFSET: u32;
override GROUPS: u32;
override OUTS: u32;
override ROWS: u32;
override THREADS: u32;
// Elements of `sums`.
override SUMS: u32;
// 0 none, 1 root mean square, 2 mean and variance.
override NORM: u32;
override EPSILON: f32;
// In fours.
override AFFINE_AT: u32;
override HAS_BETA: bool;
override HAS_BIAS: bool;
override HAS_RESIDUAL: bool;
// Whether an output is `activate(gate) * up`, products of two rows of the matrix.
override IS_GATED: bool;
override GATE_ROW: u32;
override UP_ROW: u32;
// See `activate`.
override ACTIVATION: u32;
override SCALE: f32;
// 0 for none.
override SOFTCAP: f32;

const MAX_ROWS = 8u;
const GATHERERS = 8u;

var<workgroup> sums: array<f32, SUMS>;
var<workgroup> gathered: array<f32, GATHERERS * MAX_ROWS>;
var<private> row_mean: array<f32, MAX_ROWS>;
var<private> row_scale: array<f32, MAX_ROWS>;

// What a norm does at the same index of all rows.
struct Affine {
  factor: vec4<f32>,
  offset: vec4<f32>,
}

fn load_affine(at: u32) -> Affine {
  var result = Affine(vec4<f32>(1.0), vec4<f32>());
  if (NORM != 0u) {
    result.factor = unpack(affine[AFFINE_AT + at]);
  }
  if (HAS_BETA) {
    result.offset = unpack(affine[AFFINE_AT + K_FOURS + at]);
  }
  return result;
}

// A four of a row as the product takes it; a root mean square is left to the end.
fn load_x(row0: u32, r: u32, at: u32, normed: Affine) -> vec4<f32> {
  let value = row_four(row0, r, at);
  if (NORM == 0u) {
    return value;
  }
  if (NORM == 1u) {
    return value * normed.factor;
  }
  return (value - row_mean[r]) * row_scale[r] * normed.factor + normed.offset;
}

// Adds up what each thread has of each row in `sums`; the totals are in the first of each row's `gathered`.
fn gather_sums(thread: u32) {
  workgroupBarrier();
  for (var i = thread; i < GATHERERS * ROWS; i += THREADS) {
    var sum = 0.0;
    for (var t = i % GATHERERS; t < THREADS; t += GATHERERS) {
      sum += sums[(i / GATHERERS) * THREADS + t];
    }
    gathered[i] = sum;
  }
  workgroupBarrier();
}

fn total(r: u32) -> f32 {
  var sum = 0.0;
  for (var g = 0u; g < GATHERERS; g++) {
    sum += gathered[r * GATHERERS + g];
  }
  return sum;
}

fn measure_rows(row0: u32, thread: u32) {
  if (NORM == 0u) {
    return;
  }
  let count = f32(K_FOURS * 4u);
  if (NORM == 2u) {
    for (var r = 0u; r < ROWS; r++) {
      var sum = 0.0;
      for (var at = thread; at < K_FOURS; at += THREADS) {
        sum += dot(row_four(row0, r, at), vec4<f32>(1.0));
      }
      sums[r * THREADS + thread] = sum;
    }
    gather_sums(thread);
    for (var r = 0u; r < ROWS; r++) {
      row_mean[r] = total(r) / count;
    }
    workgroupBarrier();
  }
  for (var r = 0u; r < ROWS; r++) {
    var sum = 0.0;
    for (var at = thread; at < K_FOURS; at += THREADS) {
      let value = row_four(row0, r, at) - row_mean[r];
      sum += dot(value, value);
    }
    sums[r * THREADS + thread] = sum;
  }
  gather_sums(thread);
  for (var r = 0u; r < ROWS; r++) {
    row_scale[r] = inverseSqrt(total(r) / count + EPSILON);
  }
}

fn outputs_per_unit() -> u32 {
  return select(OUTS, OUTS / 2u, IS_GATED);
}

// The row of the matrix that the `o`-th sum of a unit is of.
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
  if (HAS_RESIDUAL) {
    value += residual_at(row, n);
  }
  out[row * OUT_STRIDE + OUT_OFFSET + n] = elem(value);
}

fn with_bias(n: u32, sum: f32) -> f32 {
  if (HAS_BIAS) {
    return sum + bias_at(n);
  }
  return sum;
}
