/**
 * The states that sequences have beside keys and values, as a decoder sees them: for each recurrence of a cut a state in
 * each of a number of slots.
 *
 * @module
 */
import type { CausalConvParams } from "../../kernels/states/causal_conv.ts";
import type { LinearAttentionParams } from "../../kernels/states/linear_attention.ts";
import type { StateStep } from "../../kernels/states/state_step.ts";
import type { Elem } from "../gpu/kernel.ts";
import type { StoredTensor } from "../graph/file/stored_tensor.ts";
import type { Convolution, HeadRows, LinearAttention, RecurrenceNode } from "../graph/graph_cut.ts";
import type { Tensor } from "./ort/ort.ts";

/** The parameters of states. */
export interface StatesOptions {
  readonly nodes: readonly RecurrenceNode[];
  readonly numSlots: number;
  readonly maxSequences: number;
  /** Weights and biases of the convolutions, as f32. */
  readonly constants: ReadonlyMap<string, Float32Array>;
}

/** A slot whose states another gets, before the step. */
export interface StateCopy {
  readonly from: number;
  readonly to: number;
}

/** States in device memory, one call per recurrence and step. */
export interface SequenceStates {
  /** Copies slots, in their order, and takes the sequences of the next step; its arrays may change once it is over. */
  begin(step: StateStep & { readonly stateCopies?: readonly StateCopy[] | undefined }): void;
  /**
   * Goes through the step's tokens of a recurrence, and writes its results to `output`.
   *
   * @param tensors by name, those that the node names as operands.
   * @param output destination of the result; allocated if absent.
   */
  run(index: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor;
  dispose(): void;
}

/** Numbers that a recurrence keeps of a sequence. */
export function stateSize({ recurrence }: Pick<RecurrenceNode, "recurrence">): number {
  if (recurrence.kind === "convolution") return recurrence.channels * (recurrence.taps - 1);
  return recurrence.heads * recurrence.keyDim * recurrence.valueDim;
}

/** Constants that recurrences read. */
export function stateConstants(nodes: readonly RecurrenceNode[]): StoredTensor[] {
  return nodes.flatMap(({ recurrence }) =>
    recurrence.kind === "convolution"
      ? [recurrence.weights, ...recurrence.bias ? [recurrence.bias] : []]
      : []
  );
}

/** A convolution in the kernel's terms. */
export function convParams(
  { operands, dtype }: RecurrenceNode,
  { channels, taps, activation }: Convolution,
): CausalConvParams {
  return { elem: toElem(dtype), channels, taps, activation, ...toRowLayout(operands[0]) };
}

/** A linear attention in the kernel's terms, and the names of its gates. */
export function linearParams(
  { operands: [q, k, v, ...gates], dtype }: RecurrenceNode,
  { kind: _, ...shape }: LinearAttention,
): LinearAttentionParams & { readonly decaysName?: string; readonly betasName?: string } {
  const decays = shape.decay === undefined ? undefined : gates[0];
  const betas = shape.rates > 0 ? gates.at(-1) : undefined;
  return {
    ...shape,
    elem: toElem(dtype),
    ...{
      q: toRowLayout(q),
      k: toRowLayout(k),
      v: toRowLayout(v),
      decays: toRowLayout(decays),
      betas: toRowLayout(betas),
    },
    ...decays && { decaysName: decays.tensor },
    ...betas && { betasName: betas.tensor },
  };
}

function toElem(dtype: RecurrenceNode["dtype"]): Elem {
  return dtype === "float16" ? "f16" : "f32";
}

function toRowLayout(
  rows: HeadRows | undefined,
): { readonly stride: number; readonly offset: number } {
  return { stride: rows?.tokenStride ?? 0, offset: rows?.offset ?? 0 };
}
