/**
 * Decides which rows of a decoder's steps run in Hearth's kernels, and which in ONNX Runtime. This only depends on the
 * device and on how many sequences decode, so that neither timings at the start nor the traffic change an answer.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { type Lowering, LOWERINGS } from "../program/program.ts";
import { intAttribute, type ModelProto, type Node } from "../graph/file/proto.ts";

/** A rule: see {@linkcode chooseKernels}. */
export interface KernelRule {
  /** The lowerings that run in kernels wherever a segment compiles. ONNX Runtime runs the others. */
  readonly kernels: readonly Lowering[];
  /**
   * Most decoding sequences in a step whose rows run with the lowering for few rows; beyond it, they run with the one
   * for many.
   */
  readonly maxFewRows: number;
}

/**
 * Measured on two cores of a server with decoders in q4, in Hearth's kernels and in ONNX Runtime, in ms. Qwen3-0.6B's
 * size: 22 and 33 for 1 row, 52 and 63 for 4 rows, 92 and 80 for 8, 344 and 216 for 32. By turns in one process, LFM2-350M's
 * size: 32.8 and 34.1 for 5 rows, 35.9 and 37.6 for 6, 42.5 and 42.9 for 7, 48.1 and 47.8 for 8; Qwen3.5-0.8B's: 57.6
 * and 60.6, 63.7 and 64.1, 75.3 and 70.7, 86.9 and 83.8.
 */
export const MOST_FEW_ROWS_ON_CPU = 6;

/** What the rule depends on. */
interface KernelRuleOptions {
  readonly backend: Pick<Backend, "kind" | "runtime">;
  /**
   * Whether weights are stored in one layout only: for decoders that seldom see prompts of more than a few tokens, or
   * whose rows must be bit-identical in steps of any size.
   */
  readonly keepsOneLayout: boolean;
}

/**
 * Chooses the rule. On a GPU everything runs in kernels: for decoding rows, matrix products read the weights once for
 * several rows; for prompts, in tiles of 64. On the CPU, decoding a few sequences is faster in kernels, and prompts in
 * ONNX Runtime, whose vectors are wider than WebAssembly's.
 */
export function chooseKernels({ backend, keepsOneLayout }: KernelRuleOptions): KernelRule {
  if (backend.kind === "webgpu") return { kernels: LOWERINGS, maxFewRows: Infinity };
  if (backend.runtime === "web") return WITHOUT_KERNELS;
  // Both lowerings compute rows alike here, so one pass over the weights is enough.
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
 * Whether a segment has weights that ONNX Runtime on the CPU unpacks completely at every run, even for one row. A
 * matrix of 8192 by 2048 takes it 250 ms with 8 bits and 320 ms with 2, while Hearth's kernels take 1.4 and 0.7 ms per
 * row (on one thread).
 */
export function unpacksWeights({ model }: { readonly model: ModelProto }): boolean {
  return model.graph.nodes.some(isUnpacked);
}

function isUnpacked(node: Node): boolean {
  if (node.opType !== "MatMulNBits") return false;
  const bits = intAttribute(node, "bits") ?? 4;
  return bits < 4 || (bits === 8 && intAttribute(node, "accuracy_level") !== 4);
}
