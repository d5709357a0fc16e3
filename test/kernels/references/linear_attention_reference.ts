/**
 * `linear_attention` on the CPU.
 *
 * @module
 */
import {
  checkLinearAttention,
  type LinearAttentionParams,
} from "../../../kernels/states/recurrences.ts";
import type { StateRange } from "../../../kernels/states/state_step.ts";

type Numbers = Float32Array | Float64Array | Float16Array;

/** Arrays of one linear attention, with the layout of its tensors. */
interface LinearAttentionArrays {
  readonly q: Numbers;
  readonly k: Numbers;
  readonly v: Numbers;
  readonly decays?: Float32Array | Float64Array | undefined;
  readonly betas?: Float32Array | Float64Array | undefined;
  /** Float64 for an exact result. */
  readonly state: Float32Array | Float64Array;
  readonly out: Numbers;
}

/** See {@linkcode LinearAttentionKernel}. @throws {RangeError} if the kernel refuses the parameters. */
export function linearAttentionReference(
  params: LinearAttentionParams,
  arrays: LinearAttentionArrays,
  ranges: readonly StateRange[],
): void {
  checkLinearAttention(params);
  const { heads, keyDim, valueDim } = params;
  const size = keyDim * valueDim;
  for (const { first, end, slot, isFresh, saved } of ranges) {
    for (let head = 0; head < heads; head++) {
      const at = (slot * heads + head) * size;
      const own = arrays.state.subarray(at, at + size);
      if (isFresh) own.fill(0);
      for (let token = first; token < end; token++) {
        update(params, arrays, { own, head, token });
        if (token + 1 === saved?.end) arrays.state.set(own, (saved.slot * heads + head) * size);
      }
    }
  }
}

/** Adds a token to a head's state, and computes the token's output from the state. */
function update(
  params: LinearAttentionParams,
  { q, k, v, decays, betas, out }: LinearAttentionArrays,
  { own, head, token }: {
    readonly own: Float32Array | Float64Array;
    readonly head: number;
    readonly token: number;
  },
): void {
  const { heads, queryHeads, keyHeads, keyDim, valueDim, scale, decay, decaysRows } = params;
  const qAt = token * params.q.stride + params.q.offset +
    Math.floor(head * queryHeads / heads) * keyDim;
  const kAt = token * params.k.stride + params.k.offset +
    Math.floor(head * keyHeads / heads) * keyDim;
  const vAt = token * params.v.stride + params.v.offset + head * valueDim;
  const decayAt = token * params.decays.stride + params.decays.offset;
  const factorAt = (row: number) => {
    if (decay === undefined) return 1;
    const given = decays![decayAt + (decaysRows ? head * keyDim + row : head)]!;
    return decay === "logarithm" ? Math.exp(given) : given;
  };
  const isDelta = params.rates > 0;
  const gain = new Float64Array(valueDim);
  const factor = decaysRows ? 1 : factorAt(0);
  for (let i = 0, at = 0; i < keyDim; i++) {
    const [rowFactor, key] = [decaysRows ? factorAt(i) : factor, k[kAt + i]!];
    for (let j = 0; j < valueDim; j++, at++) {
      const value = own[at]! * rowFactor;
      own[at] = value;
      if (isDelta) gain[j]! -= value * key;
    }
  }
  for (let j = 0; j < valueDim; j++) gain[j]! += v[vAt + j]!;
  if (isDelta) {
    const betaAt = token * params.betas.stride + params.betas.offset;
    const rate = betas![betaAt + (params.rates > 1 ? head : 0)]!;
    for (let j = 0; j < valueDim; j++) gain[j]! *= rate;
  }
  const read = new Float64Array(valueDim);
  for (let i = 0, at = 0; i < keyDim; i++) {
    const [key, query] = [k[kAt + i]!, q[qAt + i]!];
    for (let j = 0; j < valueDim; j++, at++) {
      const value = own[at]! + key * gain[j]!;
      own[at] = value;
      read[j]! += value * query;
    }
  }
  const to = (token * heads + head) * valueDim;
  for (let j = 0; j < valueDim; j++) out[to + j] = scale * read[j]!;
}
