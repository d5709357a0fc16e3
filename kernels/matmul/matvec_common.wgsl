// Products of rows with a weight matrix: the part that all kernels in f32 share. See matvec.ts for formula and shapes;
// the entry point is in matvec_loops.wgsl, matvec_unrolled.wgsl or matmul_tile.wgsl.
//
// Except with tiles, one workgroup takes ROWS rows and GROUPS units of outputs. A unit is OUTS rows of the matrix,
// summed by several threads along K. The order in which a row's sums are added does not depend on ROWS, so a row's
// result does not depend on how many others there are.
//
// Rows are computed in groups of ROWS: tensors have space for the last group.
//
// `row_four` defines the rows, see rows.wgsl; finish.wgsl turns their sums into outputs.
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

// Adds up what the threads have in `sums` for each row; the total is the first element of the row's `gathered`.
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
