// Products of few rows with a weight matrix; what all forms of the matrix share. See matvec.ts for formula and shapes.
//
// One workgroup takes ROWS rows and GROUPS units of outputs. A unit is OUTS rows of the matrix, summed by LANES threads
// along K; what a thread has summed is in `acc`. A row's sums are added up in an order that ROWS does not change, so a
// row's result does not depend on how many others there are.
//
// Rows are computed in groups of ROWS: tensors have room for the last group.
//
// The rows are `row_four`'s, see matvec_of_*.wgsl.
//
// Workgroup memory: THREADS * ROWS floats, twice as many where an output is of two sums, and 64 for the norm.

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
override LANES: u32;
override GROUPS: u32;
override OUTS: u32;
override ROWS: u32;
// LANES * GROUPS.
override THREADS: u32;
// Elements of `sums`.
override SUMS: u32;
// Fours of ROWS, the last of one or of four.
override ROW_FOURS: u32;
// Whether neighbouring threads take neighbouring units, rather than neighbouring elements along K.
override UNITS_FIRST: bool;
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

const MAX_ACC = 16u;
const MAX_OUTS = 8u;
const MAX_ROWS = 8u;
const GATHERERS = 8u;

var<workgroup> sums: array<f32, SUMS>;
var<workgroup> gathered: array<f32, GATHERERS * MAX_ROWS>;
// Four rows of a sum, four of the next …: [OUTS, ROW_FOURS].
var<private> acc: array<vec4<f32>, MAX_ACC>;
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

// Adds the products of a four of each row with those of the outputs' rows of the matrix.
fn add_products(of_outputs: ptr<function, array<vec4<f32>, MAX_OUTS>>, row0: u32, at: u32) {
  let normed = load_affine(at);
  if (ROWS == 1u) {
    let value = load_x(row0, 0u, at, normed);
    for (var o = 0u; o < OUTS; o++) {
      acc[o].x += dot((*of_outputs)[o], value);
    }
    return;
  }
  // Rows are written out by four: what is indexed by a loop that a compiler leaves as it is lies in memory.
  for (var four = 0u; four < ROW_FOURS; four++) {
    let value0 = load_x(row0, four * 4u, at, normed);
    let value1 = load_x(row0, four * 4u + 1u, at, normed);
    let value2 = load_x(row0, four * 4u + 2u, at, normed);
    let value3 = load_x(row0, four * 4u + 3u, at, normed);
    for (var o = 0u; o < OUTS; o++) {
      let weights = (*of_outputs)[o];
      acc[o * ROW_FOURS + four] += vec4<f32>(
        dot(weights, value0),
        dot(weights, value1),
        dot(weights, value2),
        dot(weights, value3),
      );
    }
  }
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

// What is left to do for a row's sum: the factor of a root mean square.
fn scaled(r: u32, sum: f32) -> f32 {
  if (NORM == 1u) {
    return sum * row_scale[r];
  }
  return sum;
}

fn write_sums(group_x: u32, row0: u32, thread: u32) {
  let outputs = outputs_per_unit();
  if (LANES == 1u) {
    let first = (group_x * GROUPS + thread) * outputs;
    for (var o = 0u; o < outputs; o++) {
      if (first + o < N) {
        for (var r = 0u; r < ROWS; r++) {
          let at = o * ROW_FOURS + r / 4u;
          let up = select(0u, at + outputs * ROW_FOURS, IS_GATED);
          let sums_of = vec2<f32>(acc[at][r % 4u], acc[up][r % 4u]);
          finish(first + o, row0 + r, vec2<f32>(scaled(r, sums_of.x), scaled(r, sums_of.y)));
        }
      }
    }
    return;
  }
  // One output of all units at a time, or their sums would not fit the memory that devices share.
  for (var o = 0u; o < outputs; o++) {
    workgroupBarrier();
    for (var r = 0u; r < ROWS; r++) {
      let at = o * ROW_FOURS + r / 4u;
      sums[r * THREADS + thread] = acc[at][r % 4u];
      if (IS_GATED) {
        sums[(ROWS + r) * THREADS + thread] = acc[at + outputs * ROW_FOURS][r % 4u];
      }
    }
    workgroupBarrier();
    for (var i = thread; i < GROUPS * ROWS; i += THREADS) {
      finish_unit(group_x, i % GROUPS, o, row0, i / GROUPS);
    }
  }
}

// One output of a unit for one row, from what its threads have summed.
fn finish_unit(group_x: u32, unit: u32, o: u32, row0: u32, r: u32) {
  let n = (group_x * GROUPS + unit) * outputs_per_unit() + o;
  if (n >= N) {
    return;
  }
  var value = vec2<f32>(add_lanes(r, unit), 0.0);
  if (IS_GATED) {
    value.y = add_lanes(ROWS + r, unit);
  }
  // On some devices `row_scale` may only be indexed by uniform values.
  var factor = 1.0;
  if (NORM == 1u) {
    factor = inverseSqrt(total(r) / f32(K_FOURS * 4u) + EPSILON);
  }
  finish(n, row0 + r, value * factor);
}

fn add_lanes(index: u32, unit: u32) -> f32 {
  var sum = 0.0;
  for (var lane = 0u; lane < LANES; lane++) {
    let thread = select(unit * LANES + lane, lane * GROUPS + unit, UNITS_FIRST);
    sum += sums[index * THREADS + thread];
  }
  return sum;
}

@compute @workgroup_size(THREADS)
fn matvec(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row0 = group.y * ROWS;
  let lane = select(thread % LANES, thread / GROUPS, UNITS_FIRST);
  let unit = select(thread / LANES, thread % GROUPS, UNITS_FIRST);
  prepare_rows(row0, thread);
  measure_rows(row0, thread);
  for (var i = 0u; i < OUTS * ROW_FOURS; i++) {
    acc[i] = vec4<f32>();
  }
  accumulate((group.x * GROUPS + unit) * outputs_per_unit(), row0, lane);
  write_sums(group.x, row0, thread);
}
