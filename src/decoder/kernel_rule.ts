/**
 * Which rows of a decoder's steps Hearth's kernels run, and which ONNX Runtime. It is a function of the device and of how
 * many sequences decode, so that neither the start's timings nor the traffic change an answer.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { type Lowering, LOWERINGS } from "../program/program.ts";

/** See {@linkcode chooseKernels}. */
export interface KernelRule {
  /** The lowerings that kernels run where a segment compiles; ONNX Runtime runs the others. */
  readonly kernels: readonly Lowering[];
  /** Most decoding sequences of a step whose rows run as few; those of larger steps run as many. */
  readonly maxFewRows: number;
}

/**
 * A decoder of Qwen3-0.6B's size in q4 takes two cores of a server, in Hearth's kernels and in ONNX Runtime: for 1 row
 * 22 and 33 ms, for 4 rows 52 and 63, for 8 rows 92 and 80, for 32 rows 344 and 216.
 */
export const MOST_FEW_ROWS_ON_CPU = 4;

/** What the rule follows from. */
interface KernelRuleOptions {
  readonly backend: Pick<Backend, "kind" | "runtime">;
  /**
   * Whether weights are kept in one layout: for decoders that seldom see prompts of more than a few tokens, or whose rows
   * are to be the same, to the bit, in steps of any size.
   */
  readonly keepsOneLayout: boolean;
}

/**
 * On a GPU kernels run all: of decoding rows products read the weights once for some rows, of prompts in tiles of 64.
 * On the CPU decoding up to a few sequences is faster in kernels, and prompts in ONNX Runtime, whose vectors are wider
 * than WebAssembly's.
 */
export function chooseKernels({ backend, keepsOneLayout }: KernelRuleOptions): KernelRule {
  if (backend.kind === "webgpu") return { kernels: LOWERINGS, maxFewRows: Infinity };
  if (backend.runtime === "web") return WITHOUT_KERNELS;
  // The rows of both lowerings are computed alike there: one pass over the weights is enough.
  if (keepsOneLayout) return { kernels: LOWERINGS, maxFewRows: 0 };
  return { kernels: ["few"], maxFewRows: MOST_FEW_ROWS_ON_CPU };
}

/** All rows in ONNX Runtime. */
export const WITHOUT_KERNELS: KernelRule = { kernels: [], maxFewRows: 0 };
