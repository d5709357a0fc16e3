/**
 * The activation functions and the elementwise operations that kernels compute.
 *
 * @module
 */

/** Activations. The index of each is its number in `activation.wgsl`. */
export const ACTIVATIONS = [
  "none",
  "silu",
  "gelu",
  "gelu_tanh",
  "gelu_sigmoid",
  "relu",
  "relu_squared",
  "tanh",
  "sigmoid",
  "exp",
  "softplus",
  "elu",
] as const;

/** Operations of `pointwise` with a second operand. The index of each is its number in the kernels. */
export const OPERATIONS = ["none", "add", "multiply", "max", "min"] as const;

/** The name of an activation. */
export type Activation = typeof ACTIVATIONS[number];
