/**
 * Kernel nodes of a cut graph other than attention, as a decoder uses them: recurrences, with one state per slot for
 * each node, and mixtures of experts.
 *
 * @module
 */
import type { CausalConvParams, LinearAttentionParams } from "../../kernels/states/recurrences.ts";
import type { StateStep } from "../../kernels/states/state_step.ts";
import { toElem } from "../gpu/kernel.ts";
import type { StoredTensor } from "../graph/file/tensor.ts";
import type {
  Convolution,
  ExpertsNode,
  LinearAttention,
  RecurrenceNode,
} from "../graph/graph_cut.ts";
import { toRowLayout } from "./attention.ts";
import type { Tensor } from "./ort/ort.ts";
import type { RowLayout } from "../../kernels/attention/kv_write.ts";
import type { ExpertsParams } from "../../kernels/experts/experts_params.ts";
import { toExpertsParams } from "../graph/experts/mixture.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { Lowering } from "../program/program.ts";
import type { DeviceWeights } from "./device_weights.ts";

/** The parameters of recurrent states. */
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

/** Recurrent states in device memory. There is one call per recurrence node and step. */
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

/** Counts the numbers that a recurrence node keeps per sequence. */
export function stateSize({ recurrence }: Pick<RecurrenceNode, "recurrence">): number {
  if (recurrence.kind === "convolution") return recurrence.channels * (recurrence.taps - 1);
  return recurrence.heads * recurrence.keyDim * recurrence.valueDim;
}

/** Lists the constants that recurrence nodes read. */
export function listStateConstants(nodes: readonly RecurrenceNode[]): StoredTensor[] {
  return nodes.flatMap(({ recurrence }) =>
    recurrence.kind === "convolution"
      ? [recurrence.weights, ...recurrence.bias ? [recurrence.bias] : []]
      : []
  );
}

/** Converts a convolution to the kernel's parameters. */
export function toConvParams(
  { operands, dtype }: RecurrenceNode,
  { channels, taps, activation }: Convolution,
): CausalConvParams {
  return { elem: toElem(dtype), channels, taps, activation, ...toRowLayout(operands[0]) };
}

/** Converts a linear attention to the kernel's parameters and the names of its gates. */
export function toLinearParams(
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

/** Options for opening the mixtures of a cut. */
export interface ExpertsOptions {
  readonly nodes: readonly ExpertsNode[];
  /** Maximum number of tokens in a step. */
  readonly maxTokens: number;
  /** Files with the weights and other constants. */
  readonly files: ModelFiles;
  /** Device memory that holds the weights, owned by the caller; absent on the CPU. */
  readonly weights?: DeviceWeights | undefined;
}

/** One mixture in a step. */
export interface ExpertsRun {
  /** Tensors by name, including the node's operands. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** Destination of the result; allocated if absent. */
  readonly output: Tensor | undefined;
  /** First row that is computed; 0 on a GPU. */
  readonly firstRow: number;
  readonly numRows: number;
  readonly lowering: Lowering;
}

/** Mixtures of experts, with their weights in device memory. There is one call per mixture and step. */
export interface ExpertLayers {
  /** Whether a row's result is bit-identical in both lowerings. */
  readonly isExact: boolean;
  /** Runs a mixture on rows of a step. */
  run(index: number, run: ExpertsRun): Tensor;
  dispose(): void;
}

/** Converts a node to the kernels' parameters. */
export function toExpertParams({ mixture, operands, dtype }: ExpertsNode): ExpertsParams {
  const [x, logits] = operands.map(toRowLayout) as [RowLayout, RowLayout];
  return toExpertsParams(mixture, { elem: toElem(dtype), x, logits });
}
