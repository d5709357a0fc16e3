// Products of rows with a weight matrix; what all loops over it in f32 share. See matvec.ts for formula and shapes;
// the entry point is that of matvec_loops.wgsl, matvec_unrolled.ts or matmul_tile.ts.
//
// But for tiles, one workgroup takes ROWS rows and GROUPS units of outputs. A unit is OUTS rows of the matrix, summed by
// some threads along K. A row's sums are added up in an order that ROWS does not change, so a row's result does not depend
// on how many others there are.
//
// Rows are computed in groups of ROWS: tensors have room for the last group.
//
// The rows are `row_four`'s, see matvec_of_*.wgsl; what is made of their sums is in matmul/finish.wgsl.
//
// Workgroup memory: SUMS floats, and 64 for the norm.

override GROUPS: u32;
override ROWS: u32;
override THREADS: u32;
// Elements of `sums`.
override SUMS: u32;

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
