/** Activations by their numbers in `../activation.ts`. */
import { exp2, LOG2_E } from "./softmax";

const SILU: u32 = 1;
const GELU_TANH: u32 = 3;
const GELU_SIGMOID: u32 = 4;
const RELU: u32 = 5;

/** √(8 / π), and 0.044715 times as much. */
const GELU_LINEAR: f32 = 1.5957691216057308;
const GELU_CUBIC: f32 = 0.07135481282553303;

/** Any but `gelu` and `relu_squared`. */
export function activate(kind: u32, x: v128): v128 {
  if (kind === SILU) return f32x4.mul(x, sigmoid(x));
  if (kind === GELU_SIGMOID) return f32x4.mul(x, sigmoid(f32x4.mul(x, f32x4.splat(1.702))));
  if (kind === GELU_TANH) {
    // (1 + tanh(y)) / 2 is the sigmoid of 2y.
    const squares = f32x4.mul(f32x4.mul(x, x), f32x4.splat(GELU_CUBIC));
    return f32x4.mul(x, sigmoid(f32x4.mul(x, f32x4.add(f32x4.splat(GELU_LINEAR), squares))));
  }
  return kind === RELU ? f32x4.max(x, f32x4.splat(0)) : x;
}

/** By the exponential of `-|x|`, which does not overflow. */
function sigmoid(x: v128): v128 {
  const one = f32x4.splat(1);
  const e = exp2(f32x4.mul(f32x4.abs(x), f32x4.splat(-LOG2_E)));
  const numerator = v128.bitselect(e, one, f32x4.lt(x, f32x4.splat(0)));
  return f32x4.div(numerator, f32x4.add(one, e));
}
