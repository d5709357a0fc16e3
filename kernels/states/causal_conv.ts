/**
 * Depthwise causal convolution along the tokens of each sequence, which keeps each channel's last inputs as state.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import source from "./causal_conv.wgsl" with { type: "text" };
import { ELEM } from "../common/elements.ts";
import type { StateStepBuffer } from "./state_step.ts";

/** The parameters of the kernel. */
export interface CausalConvParams {
  readonly elem: Elem;
  readonly channels: number;
  /** Number of inputs for each output: the token's own and those before it. */
  readonly taps: number;
  /** Number of elements from one token's row to the next. */
  readonly stride: number;
  /** Number of elements before the first channel. */
  readonly offset: number;
  readonly activation?: "silu" | undefined;
}

/** Buffers of one convolution. */
interface CausalConvTensors {
  /** elem `[numTokens, stride]`. */
  readonly x: GPUBuffer;
  /** f32 `[taps + 1, channels]`: see {@linkcode convFactors}. */
  readonly factors: GPUBuffer;
  /** f32 `[slots, taps - 1, channels]`: the last inputs, the oldest first. */
  readonly state: GPUBuffer;
  /** elem `[numTokens, channels]`. */
  readonly out: GPUBuffer;
}

const BINDINGS = {
  step: "read",
  x: "read",
  factors: "read",
  state: "read_write",
  out: "read_write",
} as const;
const THREADS = 64;
/** Most taps: the kernel keeps a channel's inputs in registers. */
const MAX_TAPS = 16;

/**
 * Let `x` be the inputs of a channel, including those kept from earlier steps, with zeros before the sequence's first:
 *
 * `out[t] = activation(bias + sum over k of w[k] * x[t - taps + 1 + k])`
 */
export class CausalConv {
  readonly #step: StateStepBuffer;
  readonly #kernel: Kernel<typeof BINDINGS>;
  readonly #workgroups: number;

  /** @throws {RangeError} for more taps than the kernel keeps. */
  constructor(gpu: GpuContext, step: StateStepBuffer, params: CausalConvParams) {
    checkTaps(params);
    const { elem, channels, taps, stride, offset, activation } = params;
    this.#step = step;
    this.#workgroups = Math.ceil(channels / THREADS);
    this.#kernel = Kernel.get(gpu, {
      name: "causal_conv",
      source: ELEM[elem] + source,
      bindings: BINDINGS,
      constants: {
        CHANNELS: channels,
        TAPS: taps,
        X_STRIDE: stride,
        X_OFFSET: offset,
        IS_SILU: activation === "silu" ? 1 : 0,
      },
    });
  }

  /** Appends the convolution for the step that was written last: one dispatch. */
  encode(pass: ComputePass, { x, factors, state, out }: CausalConvTensors): void {
    const { words, numSequences } = this.#step;
    const bound = { step: words, x, factors, state, out };
    this.#kernel.encode(pass, bound, [this.#workgroups, numSequences]);
  }
}

/** Checks the number of taps; the reference uses it too. */
export function checkTaps({ taps }: Pick<CausalConvParams, "taps">): void {
  if (taps >= 1 && taps <= MAX_TAPS) return;
  throw new RangeError(`A convolution of ${taps} tokens: causal_conv takes 1 to ${MAX_TAPS}.`);
}

/**
 * Joins weights `[channels, taps]` and biases `[channels]` (zeros if absent) in the kernels' layout, with neighbouring
 * channels side by side.
 */
export function convFactors(
  { weights, bias }: { readonly weights: Float32Array; readonly bias?: Float32Array | undefined },
  { channels, taps }: Pick<CausalConvParams, "channels" | "taps">,
): Float32Array<ArrayBuffer> {
  const factors = new Float32Array((taps + 1) * channels);
  for (let k = 0; k < taps; k++) {
    for (let c = 0; c < channels; c++) factors[k * channels + c] = weights[c * taps + k]!;
  }
  if (bias) factors.set(bias, taps * channels);
  return factors;
}
