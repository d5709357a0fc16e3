// The rows of a product as sums of `addend` and of `x` divided by its root mean square. Every workgroup computes and
// writes all of them, so that it only reads what it has written itself. `affine` holds all constant vectors, to need no
// more than eight buffers: the factors of the sum, the norm's factors, its offsets, and the bias.

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

fn bias_at(n: u32) -> f32 {
  return unpack(affine[BIAS_AT + n / 4u])[n % 4u];
}

fn residual_at(row: u32, n: u32) -> f32 {
  return 0.0;
}
