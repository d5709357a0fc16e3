// A norm of each row, or of each head of a row. See row_kernels.ts for formula and shapes.
//
// One workgroup takes one head of one row. Workgroup memory: 72 floats.

@group(0) @binding(0) var<storage, read> x: array<elem>;
// Factors [K], followed by offsets if there are any.
@group(0) @binding(1) var<storage, read> affine: array<elem>;
@group(0) @binding(2) var<storage, read> residual: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;

// Number of elements in a head.
override K: u32;
override X_STRIDE: u32;
override X_OFFSET: u32;
override HEADS: u32;
// Whether the mean is subtracted.
override IS_LAYER: bool;
override EPSILON: f32;
override HAS_BETA: bool;
override HAS_RESIDUAL: bool;

const THREADS = 64u;
const GATHERERS = 8u;

var<workgroup> sums: array<f32, THREADS>;
var<workgroup> gathered: array<f32, GATHERERS>;

fn total(thread: u32, own: f32) -> f32 {
  workgroupBarrier();
  sums[thread] = own;
  workgroupBarrier();
  if (thread < GATHERERS) {
    var sum = 0.0;
    for (var t = thread; t < THREADS; t += GATHERERS) {
      sum += sums[t];
    }
    gathered[thread] = sum;
  }
  workgroupBarrier();
  var sum = 0.0;
  for (var g = 0u; g < GATHERERS; g++) {
    sum += gathered[g];
  }
  return sum;
}

fn load(row: u32, head: u32, i: u32) -> f32 {
  return f32(x[row * X_STRIDE + X_OFFSET + head * K + i]);
}

@compute @workgroup_size(THREADS)
fn norm(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let head = group.x;
  let row = group.y;
  var mean = 0.0;
  if (IS_LAYER) {
    var sum = 0.0;
    for (var i = thread; i < K; i += THREADS) {
      sum += load(row, head, i);
    }
    mean = total(thread, sum) / f32(K);
  }
  var squares = 0.0;
  for (var i = thread; i < K; i += THREADS) {
    let value = load(row, head, i) - mean;
    squares += value * value;
  }
  let factor = inverseSqrt(total(thread, squares) / f32(K) + EPSILON);
  for (var i = thread; i < K; i += THREADS) {
    var value = (load(row, head, i) - mean) * factor * f32(affine[i]);
    if (HAS_BETA) {
      value += f32(affine[K + i]);
    }
    let at = (row * HEADS + head) * K + i;
    if (HAS_RESIDUAL) {
      value += f32(residual[at]);
    }
    out[at] = elem(value);
  }
}
