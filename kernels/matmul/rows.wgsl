// The rows of a product, and the norm applied to them. `row_four` reads them after `prepare_rows`.

@group(0) @binding(0) var<storage, read> x: array<four>;
// The norm's factors, elem [K], from AFFINE_AT on, followed by its offsets if it has any.
@group(0) @binding(1) var<storage, read> affine: array<four>;

// Length of a row in vec4s, and its layout in the tensor.
override K_FOURS: u32;
override X_STRIDE: u32;
override X_OFFSET: u32;
// 0 for none, 1 for root mean square, 2 for mean and variance.
override NORM: u32;
override EPSILON: f32;
// Offset of the norm's factors in `affine`, in vec4s.
override AFFINE_AT: u32;
override HAS_BETA: bool;

//# if HAS_SUM
// Each row is the sum of `addend` and of `x` divided by its root mean square and multiplied by factors. Every workgroup
// computes and writes all of its rows, so that it only reads what it has written itself. `affine` holds all constant
// vectors, so that eight buffers are enough: the factors of the sum, the norm's factors and offsets, and the bias.
@group(0) @binding(2) var<storage, read_write> summed: array<four>;
@group(0) @binding(3) var<storage, read> addend: array<four>;

override SUM_EPSILON: f32;
// Offset of the bias in `affine`, in vec4s.
override BIAS_AT: u32;

fn prepare_rows(row0: u32, thread: u32) {
  for (var r = 0u; r < ROWS; r++) {
    var squares = 0.0;
    for (var at = thread; at < K_FOURS; at += THREADS) {
      let value = unpack(x[(row0 + r) * X_STRIDE + X_OFFSET + at]);
      squares += dot(value, value);
    }
    sums[r * THREADS + thread] = squares;
  }
  gather_sums(thread);
  for (var r = 0u; r < ROWS; r++) {
    let scale = inverseSqrt(total(r) / f32(K_FOURS * 4u) + SUM_EPSILON);
    for (var at = thread; at < K_FOURS; at += THREADS) {
      let value = unpack(x[(row0 + r) * X_STRIDE + X_OFFSET + at]) * scale * unpack(affine[at]);
      let index = (row0 + r) * K_FOURS + at;
      summed[index] = pack(unpack(addend[index]) + value);
    }
  }
  storageBarrier();
  workgroupBarrier();
}

fn row_four(row0: u32, r: u32, at: u32) -> vec4<f32> {
  return unpack(summed[(row0 + r) * K_FOURS + at]);
}
//# else
fn prepare_rows(row0: u32, thread: u32) {}

fn row_four(row0: u32, r: u32, at: u32) -> vec4<f32> {
  return unpack(x[(row0 + r) * X_STRIDE + X_OFFSET + at]);
}
//# end
