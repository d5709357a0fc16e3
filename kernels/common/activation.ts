/**
 * Activations, which kernels know by number.
 *
 * @module
 */

/** Activations, at the index of their number in `activation.wgsl`. */
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
] as const;

/** The name of an activation. */
export type Activation = typeof ACTIVATIONS[number];
