// The rows of a product as they lie in `x`. See matvec_of_sums.wgsl for the other form.

@group(0) @binding(2) var<storage, read> bias: array<elem>;
@group(0) @binding(3) var<storage, read> residual: array<elem>;

fn prepare_rows(row0: u32, thread: u32) {}

fn row_four(row0: u32, r: u32, at: u32) -> vec4<f32> {
  return unpack(x[(row0 + r) * X_STRIDE + X_OFFSET + at]);
}

fn bias_at(n: u32) -> f32 {
  return f32(bias[n]);
}

fn residual_at(row: u32, n: u32) -> f32 {
  return f32(residual[row * N + n]);
}
