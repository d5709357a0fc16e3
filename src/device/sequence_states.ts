/**
 * The recurrent states of sequences, as a decoder uses them: for each recurrence node of a cut, one state per slot.
 *
 * @module
 */
import type { CausalConvParams } from "../../kernels/states/causal_conv.ts";
import type { LinearAttentionParams } from "../../kernels/states/linear_attention.ts";
import type { StateStep } from "../../kernels/states/state_step.ts";
import { toElem } from "../gpu/kernel.ts";
import type { StoredTensor } from "../graph/file/tensor.ts";
import type { Convolution, LinearAttention, RecurrenceNode } from "../graph/graph_cut.ts";
import { toRowLayout } from "./attention.ts";
import type { Tensor } from "./ort/ort.ts";

/** The parameters of states. */
export interface StatesOptions {
  readonly nodes: readonly RecurrenceNode[];
  readonly numSlots: number;
  readonly maxSequences: number;
  /** Weights and biases of the convolutions, as f32. */
  readonly constants: ReadonlyMap<string, Float32Array>;
}

/** A copy from one slot to another, before the step. */
export interface StateCopy {
  readonly from: number;
  readonly to: number;
}

/** States in device memory. There is one call per recurrence node and step. */
export interface SequenceStates {
  /** Copies slots, in order, and sets the sequences of the next step, whose arrays may change once the step is over. */
  begin(step: StateStep & { readonly stateCopies?: readonly StateCopy[] | undefined }): void;
  /**
   * Runs a recurrence node over the step's tokens, and writes its results to `output`.
   *
   * @param tensors by name, including the node's operands.
   * @param output destination of the result; allocated if absent.
   */
  run(index: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor;
  dispose(): void;
}

/** How many numbers a recurrence node keeps per sequence. */
export function stateSize({ recurrence }: Pick<RecurrenceNode, "recurrence">): number {
  if (recurrence.kind === "convolution") return recurrence.channels * (recurrence.taps - 1);
  return recurrence.heads * recurrence.keyDim * recurrence.valueDim;
}

/** Lists the constants that recurrence nodes read. */
export function stateConstants(nodes: readonly RecurrenceNode[]): StoredTensor[] {
  return nodes.flatMap(({ recurrence }) =>
    recurrence.kind === "convolution"
      ? [recurrence.weights, ...recurrence.bias ? [recurrence.bias] : []]
      : []
  );
}

/** Converts a convolution to the kernel's parameters. */
export function convParams(
  { operands, dtype }: RecurrenceNode,
  { channels, taps, activation }: Convolution,
): CausalConvParams {
  return { elem: toElem(dtype), channels, taps, activation, ...toRowLayout(operands[0]) };
}

/** Converts a linear attention to the kernel's parameters and the names of its gates. */
export function linearParams(
  { operands: [q, k, v, ...gates], dtype }: RecurrenceNode,
  { kind: _, ...shape }: LinearAttention,
): LinearAttentionParams & { readonly decaysName?: string; readonly betasName?: string } {
  const decays = shape.decay === undefined ? undefined : gates[0];
  const betas = shape.rates > 0 ? gates.at(-1) : undefined;
  return {
    ...shape,
    elem: toElem(dtype),
    q: toRowLayout(q),
    k: toRowLayout(k),
    v: toRowLayout(v),
    decays: toRowLayout(decays),
    betas: toRowLayout(betas),
    ...decays && { decaysName: decays.tensor },
    ...betas && { betasName: betas.tensor },
  };
}
