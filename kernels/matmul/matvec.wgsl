// Products of rows with a weight matrix: the part that all kernels in f32 share, and the kernel with loops. See
// matvec.ts for formula and shapes. The other entry points are in matvec_unrolled.wgsl and matmul_tile.wgsl.
//
// Except with tiles, one workgroup takes ROWS rows and GROUPS units of outputs. A unit is OUTS rows of the matrix,
// summed by several threads along K. The order in which a row's sums are added does not depend on ROWS, so a row's
// result does not depend on how many others there are.
//
// Rows are computed in groups of ROWS, and tensors have space for the last group. `row_four` of rows.wgsl reads the
// rows, and `finish` of matrix.wgsl turns their sums into outputs.
//
// Workgroup memory: SUMS floats, and 64 for the norm.

override GROUPS: u32;
override ROWS: u32;
override THREADS: u32;
// Number of elements in `sums`.
override SUMS: u32;

const MAX_ROWS = 8u;
const GATHERERS = 8u;

var<workgroup> sums: array<f32, SUMS>;
var<workgroup> gathered: array<f32, GATHERERS * MAX_ROWS>;
var<private> row_mean: array<f32, MAX_ROWS>;
var<private> row_scale: array<f32, MAX_ROWS>;

// The norm's factors and offsets at one index, shared by all rows.
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

// A vec4 of a row as input of the product; the factor of a root mean square is applied at the end.
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

// Adds up the threads' elements of `sums` for each row, in GATHERERS parts, which `total` adds up.
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
//# if IS_LOOPED

// The products with loops, for software adapters and for matrix formats that matvec_unrolled.wgsl does not support.

// Number of threads that sum a unit; each has its part in `acc`.
override LANES: u32;
// Number of groups of four rows; 1 if there is a single row.
override ROW_FOURS: u32;
// Whether neighbouring threads take neighbouring units, rather than neighbouring elements along K.
override UNITS_FIRST: bool;

const MAX_ACC = 16u;
const MAX_OUTS = 8u;

// Sums in groups of four rows: [OUTS, ROW_FOURS].
var<private> acc: array<vec4<f32>, MAX_ACC>;

// Adds the products of a vec4 of each row with the corresponding vec4s of the outputs' matrix rows.
fn add_products(of_outputs: ptr<function, array<vec4<f32>, MAX_OUTS>>, row0: u32, at: u32) {
  let normed = load_affine(at);
  if (ROWS == 1u) {
    let value = load_x(row0, 0u, at, normed);
    for (var o = 0u; o < OUTS; o++) {
      acc[o].x += dot((*of_outputs)[o], value);
    }
    return;
  }
  // Rows are unrolled by four, since an array indexed in a loop is kept in memory if the compiler does not unroll the
  // loop.
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

// Multiplies a row's sum by the row's root mean square factor, if that norm is used.
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
  // One output of all units at a time; all of them would not fit into the workgroup memory that every device has.
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

// Finishes one output of a unit for one row, from the sums of its threads.
fn finish_unit(group_x: u32, unit: u32, o: u32, row0: u32, r: u32) {
  let n = (group_x * GROUPS + unit) * outputs_per_unit() + o;
  if (n >= N) {
    return;
  }
  var value = vec2<f32>(add_lanes(r, unit), 0.0);
  if (IS_GATED) {
    value.y = add_lanes(ROWS + r, unit);
  }
  // On some devices, `row_scale` may only be indexed by uniform values.
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
//# end
