/**
 * Decides which rows of a decoder's steps run in Hearth's kernels, and which in ONNX Runtime. This depends only on the
 * device, on the graph and on the number of decoding sequences. It does not depend on timings, so an answer is the same
 * after each start.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { type Lowering, LOWERINGS } from "../program/program.ts";
import { type ModelProto, type Node, readIntAttribute, type Tensor } from "../graph/file/proto.ts";

/** Says which rows run in kernels. */
export interface KernelRule {
  /** The lowerings that run in kernels wherever a segment compiles. ONNX Runtime runs the others. */
  readonly kernels: readonly Lowering[];
  /**
   * Maximum number of decoding sequences whose rows run with the lowering for few rows. If a step has more, they run
   * with the lowering for many rows.
   */
  readonly maxFewRows: number;
}

/**
 * {@linkcode KernelRule.maxFewRows} on the CPU. Milliseconds of a step in Hearth's kernels and in ONNX Runtime,
 * measured on two cores of a server with q4 weights:
 *
 * | decoder of the size of    | rows: kernels, ONNX Runtime                                |
 * | ------------------------- | ---------------------------------------------------------- |
 * | Qwen3-0.6B                | 1: 22, 33; 4: 52, 63; 8: 92, 80; 32: 344, 216              |
 * | LFM2-350M (alternating)   | 5: 32.8, 34.1; 6: 35.9, 37.6; 7: 42.5, 42.9; 8: 48.1, 47.8 |
 * | Qwen3.5-0.8B (alternating)| 5: 57.6, 60.6; 6: 63.7, 64.1; 7: 75.3, 70.7; 8: 86.9, 83.8 |
 */
export const MOST_FEW_ROWS_ON_CPU = 6;

/** Options of {@linkcode chooseKernels}. */
interface KernelRuleOptions {
  readonly backend: Pick<Backend, "kind" | "runtime">;
  /**
   * Whether weights are stored in one layout only: for decoders that seldom see prompts of more than a few tokens, or
   * whose rows must be bit-identical in steps of any size.
   */
  readonly keepsOneLayout: boolean;
}

/**
 * Chooses the rule. On a GPU everything runs in kernels. On the CPU a few decoding sequences are faster in kernels, but
 * prompts are faster in ONNX Runtime, whose vectors are wider than WebAssembly's.
 */
export function chooseKernels({ backend, keepsOneLayout }: KernelRuleOptions): KernelRule {
  if (backend.kind === "webgpu") return { kernels: LOWERINGS, maxFewRows: Infinity };
  if (backend.runtime === "web") return WITHOUT_KERNELS;
  // On the CPU both lowerings give a row the same result, so all rows run with the lowering for many.
  if (keepsOneLayout) return { kernels: LOWERINGS, maxFewRows: 0 };
  return { kernels: ["few"], maxFewRows: MOST_FEW_ROWS_ON_CPU };
}

/** Runs all rows in ONNX Runtime. */
export const WITHOUT_KERNELS: KernelRule = { kernels: [], maxFewRows: 0 };

/**
 * Whether a segment rounds all rows of a step to 8 bits with one scale (`DynamicQuantizeLinear`, as in int8 exports),
 * so that a row's result depends on the sequences that share its step.
 */
export function sharesScales({ model }: { readonly model: ModelProto }): boolean {
  return model.graph.nodes.some(({ opType }) => opType === "DynamicQuantizeLinear");
}

/**
 * Whether a segment has weights that ONNX Runtime on the CPU unpacks completely at every run, even for one row. For a
 * matrix of 8192 by 2048 this takes 250 ms with 8 bits and 320 ms with 2 bits. Hearth's kernels take 1.4 and 0.7 ms per
 * row (on one thread). With floating-point zero points, ONNX Runtime also unpacks 4-bit weights, and cannot run 8-bit
 * weights.
 */
export function unpacksWeights({ model }: { readonly model: ModelProto }): boolean {
  const constants = new Map(model.graph.initializers.map((tensor) => [tensor.name, tensor]));
  return model.graph.nodes.some((node) => isUnpacked(node, constants));
}

function isUnpacked(node: Node, constants: ReadonlyMap<string, Tensor>): boolean {
  if (node.opType !== "MatMulNBits") return false;
  if ((constants.get(node.inputs[3] ?? "")?.dtype ?? "uint8") !== "uint8") return true;
  const bits = readIntAttribute(node, "bits") ?? 4;
  return bits < 4 || (bits === 8 && readIntAttribute(node, "accuracy_level") !== 4);
}
