/**
 * The mixtures of experts of a cut graph, as a decoder sees them.
 *
 * @module
 */
import type { RowLayout } from "../../kernels/attention/kv_write.ts";
import type { ExpertsParams } from "../../kernels/experts/experts_params.ts";
import { toElem } from "../gpu/kernel.ts";
import { expertsParams } from "../graph/experts/mixture.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { ExpertsNode } from "../graph/graph_cut.ts";
import type { Lowering } from "../program/program.ts";
import type { DeviceWeights } from "./device_weights.ts";
import { toRowLayout } from "./attention.ts";
import type { Tensor } from "./ort/ort.ts";

/** Options for opening the mixtures of a cut. */
export interface ExpertsOptions {
  readonly nodes: readonly ExpertsNode[];
  /** Most tokens in a step. */
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
  return expertsParams(mixture, { elem: toElem(dtype), x, logits });
}
