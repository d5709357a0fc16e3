// Turns a row's sums with the matrix into outputs: bias, activation, gate, scale, soft cap and residual. See matvec.ts
// for the formula.

//# if !HAS_SUM
@group(0) @binding(2) var<storage, read> bias: array<elem>;
@group(0) @binding(3) var<storage, read> residual: array<elem>;
//# end
@group(0) @binding(4) var<storage, read_write> out: array<elem>;

// Number of outputs per row, and their layout in the output tensor.
override N: u32;
override OUT_STRIDE: u32;
override OUT_OFFSET: u32;
// Number of matrix rows that a unit sums; if gated, half of them are the gate's.
override OUTS: u32;
override HAS_BIAS: bool;
override HAS_RESIDUAL: bool;
// Whether an output is `activate(gate) * up`, from two rows of the matrix.
override IS_GATED: bool;
override GATE_ROW: u32;
override UP_ROW: u32;
// Number of the activation; see `activate`.
override ACTIVATION: u32;
override SCALE: f32;
// 0 for none.
override SOFTCAP: f32;

fn outputs_per_unit() -> u32 {
  return select(OUTS, OUTS / 2u, IS_GATED);
}

// The matrix row of a unit's `o`-th sum.
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
  //# if !HAS_SUM
  if (HAS_RESIDUAL) {
    value += f32(residual[row * N + n]);
  }
  //# end
  out[row * OUT_STRIDE + OUT_OFFSET + n] = elem(value);
}

fn with_bias(n: u32, sum: f32) -> f32 {
  if (HAS_BIAS) {
    //# if HAS_SUM
    return sum + unpack(affine[BIAS_AT + n / 4u])[n % 4u];
    //# else
    return sum + f32(bias[n]);
    //# end
  }
  return sum;
}
