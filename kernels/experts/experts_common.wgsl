// The inputs of the products with experts' matrices, and the activation after the first product. See experts_source.ts.
//
// The matrices of all experts lie one after the other. In f16, four neighbouring elements are read as two words, which
// does not need `shader-f16`.

@group(0) @binding(0) var<storage, read> x: array<$XS>;
//# if IS_PLAIN
@group(0) @binding(1) var<storage, read> weights: array<$WEIGHTS>;
//# else
@group(0) @binding(1) var<storage, read> levels: array<$WEIGHTS>;
@group(0) @binding(2) var<storage, read> scales: array<elem>;
@group(0) @binding(3) var<storage, read> zero_points: array<u32>;
//# end
@group(0) @binding(4) var<storage, read> bias: array<elem>;

fn x_four(at: u32) -> vec4<f32> {
  //# if HAS_HALF_ROWS
  return vec4<f32>(unpack2x16float(x[at].x), unpack2x16float(x[at].y));
  //# else
  return x[at];
  //# end
}

fn bias_at(expert: u32, row: u32) -> f32 {
  //# if HAS_BIAS
  return f32(bias[expert * $(MATRIX_ROWS)u + row]);
  //# else
  return 0.0;
  //# end
}
//# if IS_PLAIN

// The `at`-th vec4 along K of a matrix row. Rows are numbered over all experts.
fn weight_four(row: u32, at: u32) -> vec4<f32> {
  let four = weights[row * $(K / 4)u + at];
  //# if HAS_HALF_WEIGHTS
  return vec4<f32>(unpack2x16float(four.x), unpack2x16float(four.y));
  //# else
  return four;
  //# end
}
//# else

fn scale_at(row: u32, block: u32) -> f32 {
  return f32(scales[row * $(K / BLOCK)u + block]);
}

fn zero_at(row: u32, block: u32) -> f32 {
  //# if HAS_ZERO_POINTS
  let byte = row * $(ZERO_BYTES)u + block / $(8 / BITS)u;
  let level = zero_points[byte / 4u] >> ((byte % 4u) * 8u + (block % $(8 / BITS)u) * $(BITS)u);
  return f32(level & $(LEVELS - 1)u);
  //# else
  return $(LEVELS / 2).0;
  //# end
}
//# if !IS_FEW

fn weight_four(row: u32, at: u32) -> vec4<f32> {
  //# if IS_NIBBLES
  let word = levels[row * $(K / 8)u + at / 2u];
  let four = (vec4<u32>(word >> (at % 2u * 16u)) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
  //# else
  let four = unpack4xU8(levels[row * $(K / 4)u + at]);
  //# end
  let block = at / $(BLOCK / 4)u;
  return (vec4<f32>(four) - zero_at(row, block)) * scale_at(row, block);
}
//# end
//# end
//# if IS_FIRST

// With `g = min(gate, limit)` and `u = clamp(up, -limit, limit)`: `activate(g) * (u + beta)`, where SiLU is `g *
// sigmoid(alpha * g)`. If the matrix is not gated, the result is `activate(gate)`.
fn activated(gate: f32, up: f32) -> f32 {
  //# if IS_BOUNDED
  let g = min(gate, $LIMIT);
  let u = clamp(up, -$LIMIT, $LIMIT);
  //# else
  let g = gate;
  let u = up;
  //# end
  //# if IS_SILU
  let activated_gate = g / (1.0 + exp(-$ALPHA * g));
  //# else
  let activated_gate = activate($(ACTIVATION)u, g);
  //# end
  //# if IS_GATED
  return activated_gate * (u + $BETA);
  //# else
  return activated_gate;
  //# end
}
//# end
