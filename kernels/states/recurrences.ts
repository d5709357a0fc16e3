/**
 * Recurrences, which keep a state for each sequence: depthwise causal convolution along the tokens, whose state is each
 * channel's last inputs; and linear attention, by Mamba-2's recurrence or the (gated) delta rule.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, Kernel } from "../../src/gpu/kernel.ts";
import convSource from "./causal_conv.wgsl" with { type: "text" };
import { ELEM, expand } from "../common/wgsl.ts";
import type { StateStepBuffer } from "./state_step.ts";
import linearTemplate from "./linear_attention.wgsl" with { type: "text" };

/** The parameters of {@linkcode CausalConv}. */
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
  /** f32 `[taps + 1, channels]`: see {@linkcode joinConvFactors}. */
  readonly factors: GPUBuffer;
  /** f32 `[slots, taps - 1, channels]`: the last inputs, the oldest first. */
  readonly state: GPUBuffer;
  /** elem `[numTokens, channels]`. */
  readonly out: GPUBuffer;
}

const CONV_BINDINGS = {
  step: "read",
  x: "read",
  factors: "read",
  state: "read_write",
  out: "read_write",
} as const;
const THREADS = 64;
/** Maximum number of taps: the kernel keeps a channel's inputs in registers. */
const MAX_TAPS = 16;

/**
 * Let `x` be the inputs of a channel, including those kept from earlier steps, with zeros before the sequence's first:
 *
 * `out[t] = activation(bias + sum over k of w[k] * x[t - taps + 1 + k])`
 */
export class CausalConv {
  readonly #step: StateStepBuffer;
  readonly #kernel: Kernel<typeof CONV_BINDINGS>;
  readonly #workgroups: number;

  /** @throws {RangeError} for more taps than the kernel keeps. */
  constructor(gpu: GpuContext, step: StateStepBuffer, params: CausalConvParams) {
    checkTaps(params);
    const { elem, channels, taps, stride, offset, activation } = params;
    this.#step = step;
    this.#workgroups = Math.ceil(channels / THREADS);
    this.#kernel = Kernel.get(gpu, {
      name: "causal_conv",
      source: ELEM[elem] + convSource,
      bindings: CONV_BINDINGS,
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
export function joinConvFactors(
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

/** Position of a token's heads in a tensor, in elements. */
interface Rows {
  readonly stride: number;
  readonly offset: number;
}

/** The parameters of {@linkcode LinearAttentionKernel}. */
export interface LinearAttentionParams {
  /** Element type of q, k, v and the output. */
  readonly elem: Elem;
  /** Number of heads of values and states. */
  readonly heads: number;
  /** Head `h` uses query head `floor(h * queryHeads / heads)` and key head `floor(h * keyHeads / heads)`. */
  readonly queryHeads: number;
  readonly keyHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly scale: number;
  /** How a state decays: not at all, by a factor, or by the exponential of a number. */
  readonly decay?: "factor" | "logarithm" | undefined;
  /** Whether each row of a state has a decay of its own. */
  readonly decaysRows: boolean;
  /** Number of the delta rule's rates per token: 1, or one for each head; 0 without the rule. */
  readonly rates: number;
  readonly q: Rows;
  readonly k: Rows;
  readonly v: Rows;
  readonly decays: Rows;
  readonly betas: Rows;
}

/** Buffers of one linear attention. */
interface LinearAttentionTensors {
  /** elem `[numTokens, q.stride]`. */
  readonly q: GPUBuffer;
  readonly k: GPUBuffer;
  readonly v: GPUBuffer;
  /** f32 `[numTokens, decays.stride]`. */
  readonly decays?: GPUBuffer | undefined;
  /** f32 `[numTokens, betas.stride]`. */
  readonly betas?: GPUBuffer | undefined;
  /** f32 `[slots, heads, keyDim, valueDim]`. */
  readonly state: GPUBuffer;
  /** elem `[numTokens, heads * valueDim]`. */
  readonly out: GPUBuffer;
}

const LINEAR_BINDINGS = {
  step: "read",
  q: "read",
  k: "read",
  v: "read",
  decays: "read",
  betas: "read",
  state: "read_write",
  out: "read_write",
} as const;
/** Number of columns of a state in a workgroup, and of groups of its rows. */
const [COLUMNS, GROUPS] = [32, 8];
/** Maximum number of rows of a state that a thread keeps in registers. */
const MAX_ROWS = 32;
/**
 * Maximum number of tokens whose keys and queries are staged in workgroup memory, and the floats available for them.
 */
const [MAX_STAGED, STAGED_FLOATS] = [8, 3072];

/**
 * Let `S` be a head's state `[keyDim, valueDim]`, zeros before the sequence's first token. For each token in turn:
 *
 * `S = decay * S`, then `S = S + k ⊗ v`, or by the delta rule `S = S + k ⊗ beta (v - Sᵀ k)`, and `out = scale * Sᵀ q`
 */
export class LinearAttentionKernel {
  readonly #step: StateStepBuffer;
  readonly #kernel: Kernel<typeof LINEAR_BINDINGS>;
  readonly #workgroups: readonly [number, number];

  /** @throws {RangeError} for states with more rows than the kernel keeps. */
  constructor(gpu: GpuContext, step: StateStepBuffer, params: LinearAttentionParams) {
    checkLinearAttention(params);
    const { elem, heads, queryHeads, keyHeads, keyDim, valueDim, scale, decay } = params;
    this.#step = step;
    this.#workgroups = [Math.ceil(valueDim / COLUMNS), heads];
    const fours = Math.ceil(keyDim / (4 * GROUPS));
    const keyFours = fours * GROUPS;
    const staged = Math.min(MAX_STAGED, Math.floor((STAGED_FLOATS / 4 / keyFours - 1) / 2));
    const parts = {
      FOURS: fours,
      IS_DELTA: params.rates > 0,
      DECAYS_ROWS: decay !== undefined && params.decaysRows,
    };
    this.#kernel = Kernel.get(gpu, {
      name: "linear_attention",
      source: ELEM[elem] + expand(linearTemplate, parts),
      bindings: LINEAR_BINDINGS,
      constants: {
        HEADS: heads,
        QUERY_HEADS: queryHeads,
        KEY_HEADS: keyHeads,
        KEY_DIM: keyDim,
        VALUE_DIM: valueDim,
        SCALE: scale,
        DECAYS: decay === undefined ? 0 : 1,
        IS_LOGARITHM: decay === "logarithm" ? 1 : 0,
        RATES: params.rates,
        Q_STRIDE: params.q.stride,
        Q_OFFSET: params.q.offset,
        K_STRIDE: params.k.stride,
        K_OFFSET: params.k.offset,
        V_STRIDE: params.v.stride,
        V_OFFSET: params.v.offset,
        DECAY_STRIDE: params.decays.stride,
        DECAY_OFFSET: params.decays.offset,
        BETA_STRIDE: params.betas.stride,
        BETA_OFFSET: params.betas.offset,
        KEY_FOURS: keyFours,
        STAGED: staged,
        NUM_KEYS: (staged + 1) * keyFours,
        NUM_QUERIES: staged * keyFours,
      },
    });
  }

  /** Appends the recurrence for the step that was written last: one dispatch. */
  encode(pass: ComputePass, tensors: LinearAttentionTensors): void {
    const { words, numSequences } = this.#step;
    // Every binding needs a buffer; unused ones are not read.
    const { q, k, v, decays = words, betas = words, state, out } = tensors;
    const bound = { step: words, q, k, v, decays, betas, state, out };
    this.#kernel.encode(pass, bound, [...this.#workgroups, numSequences]);
  }
}

/** Checks parameters; the reference uses it too. */
export function checkLinearAttention(
  { heads, queryHeads, keyHeads, keyDim }: Omit<LinearAttentionParams, "elem">,
): void {
  const isDivided = heads % queryHeads === 0 && heads % keyHeads === 0;
  if (isDivided && keyDim <= GROUPS * MAX_ROWS) return;
  throw new RangeError(
    `A linear attention of ${heads} states of ${keyDim} rows, ${queryHeads} queries and ${keyHeads} ` +
      `keys: linear_attention takes ${
        GROUPS * MAX_ROWS
      } rows at most, and heads that divide each other.`,
  );
}
