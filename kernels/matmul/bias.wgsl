// The terms added to the sums of a row: a bias before the activation, a residual after it.

@group(0) @binding(2) var<storage, read> bias: array<elem>;
@group(0) @binding(3) var<storage, read> residual: array<elem>;

fn bias_at(n: u32) -> f32 {
  return f32(bias[n]);
}

fn residual_at(row: u32, n: u32) -> f32 {
  return f32(residual[row * N + n]);
}
