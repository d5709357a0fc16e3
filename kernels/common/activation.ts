/**
 * The activation functions that kernels compute.
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
] as const;

/** The name of an activation. */
export type Activation = typeof ACTIVATIONS[number];
