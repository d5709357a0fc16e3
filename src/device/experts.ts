/**
 * The mixtures of experts of a cut graph, as a decoder sees them.
 *
 * @module
 */
import type { ExpertsParams } from "../../kernels/experts/experts_params.ts";
import { expertsParams } from "../graph/experts/mixture.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { StoredTensor } from "../graph/file/stored_tensor.ts";
import type { ExpertsNode, HeadRows } from "../graph/graph_cut.ts";
import type { Lowering } from "../program/program.ts";
import type { DeviceWeights } from "./device_weights.ts";
import type { Tensor } from "./ort/ort.ts";

/** How to open the mixtures of a cut. */
export interface ExpertsOptions {
  readonly nodes: readonly ExpertsNode[];
  /** Most tokens of a step. */
  readonly maxTokens: number;
  /** Where the weights are read. */
  readonly files: ModelFiles;
  /** Device memory that holds them, the caller's; absent on the CPU. */
  readonly weights?: DeviceWeights | undefined;
  /** Reads a constant. */
  readonly readFloats: (tensor: StoredTensor) => Promise<Float32Array>;
}

/** One mixture of a step. */
export interface ExpertsRun {
  /** The node's operands by name. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** Destination of the result; allocated if absent. */
  readonly output: Tensor | undefined;
  /** The first row that is computed: 0 on a GPU. */
  readonly firstRow: number;
  readonly numRows: number;
  readonly lowering: Lowering;
}

/** Mixtures of experts and their weights in device memory, one call per mixture and step. */
export interface ExpertLayers {
  /** Whether a row is computed alike, to the bit, in both lowerings. */
  readonly isExact: boolean;
  /** Runs a mixture on rows of a step. */
  run(index: number, run: ExpertsRun): Tensor;
  dispose(): void;
}

/** A node in the kernels' terms. */
export function toExpertParams({ mixture, operands, dtype }: ExpertsNode): ExpertsParams {
  const [x, logits] = operands.map(({ tokenStride, offset }: HeadRows) => ({
    stride: tokenStride,
    offset,
  })) as [ExpertsParams["x"], ExpertsParams["logits"]];
  return expertsParams(mixture, { elem: dtype === "float16" ? "f16" : "f32", x, logits });
}
