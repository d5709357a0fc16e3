/**
 * Activations on the CPU.
 *
 * @module
 */
import type { Activation } from "../../../kernels/common/activation.ts";

/** Applies an activation to a number. */
export function activate(kind: Activation, x: number): number {
  switch (kind) {
    case "none":
      return x;
    case "silu":
      return x / (1 + Math.exp(-x));
    case "gelu":
      return 0.5 * x * (1 + erf(x * Math.SQRT1_2));
    case "gelu_tanh":
      return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
    case "gelu_sigmoid":
      return x / (1 + Math.exp(-1.702 * x));
    case "relu":
      return Math.max(x, 0);
    case "relu_squared":
      return Math.max(x, 0) ** 2;
    case "tanh":
      return Math.tanh(x);
    case "sigmoid":
      return 1 / (1 + Math.exp(-x));
    case "exp":
      return Math.exp(x);
    case "softplus":
      return Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
    case "elu":
      return x > 0 ? x : Math.expm1(x);
  }
}

/** Abramowitz and Stegun 7.1.26, with an error below 1.5e-7. */
function erf(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const factors = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const series = t * factors.reduce((sum, factor) => sum * t + factor, 0);
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}
