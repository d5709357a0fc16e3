/**
 * Attention over a paged KV cache, as a decoder sees it.
 *
 * @module
 */
import type { CachePool, WindowPool } from "../../kernels/attention/kv_cache.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import type { OperandLayout } from "../program/program.ts";
import type { AttentionNode } from "../graph/graph_cut.ts";
import type { Tensor } from "./ort/ort.ts";
import type { Slices } from "./slices.ts";

/** The parameters of a paged attention. */
export interface AttentionOptions extends CachePool {
  readonly nodes: readonly AttentionNode[];
  /** Pools of the nodes with a window; all nodes are in the main one if absent. */
  readonly windows?: readonly WindowPool[] | undefined;
  readonly blockSize: number;
  /** Whether keys and values are kept in 8 bits. */
  readonly isQuantized?: boolean | undefined;
  /** Whether a prompt's rows are to be the same, to the bit, however it is divided into steps. */
  readonly isInvariant?: boolean | undefined;
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly maxBlocksPerSequence: number;
  /** Rotary tables and sinks that the nodes name, as f32. */
  readonly constants: ReadonlyMap<string, Float32Array>;
}

/** A step as attentions see it. */
export interface AttentionStep extends PackedStep {
  /** Where each sequence's keys and values of an encoder are, if it attends to one. */
  readonly sequences: readonly { readonly encoderSlot?: number | undefined }[];
  /** i32 `[numTokens]` each: rows of tables of angles in sections; those of `anglePositions` if absent. */
  readonly sectionPositions?: readonly Int32Array[] | undefined;
}

/** Attention over a paged KV cache, one call per node and step. */
export interface PagedAttention {
  /**
   * Takes the layout of the next step; its arrays may change once the step is over. A step that goes on after another
   * has run takes it once more.
   */
  begin(step: AttentionStep): void;
  /**
   * Writes the keys and values of node `layer` into the cache, attends, and writes the result to `output`.
   *
   * @param tensors by name, those the node names as q, k and v.
   * @param output destination of the result; allocated if absent.
   * @param slices divide the work; on the CPU alone.
   */
  run(
    layer: number,
    tensors: ReadonlyMap<string, Tensor>,
    output: Tensor | undefined,
    slices?: Slices,
  ): Tensor | Promise<Tensor>;
  /** Whether node `layer` takes its operands by {@linkcode openLayout}; none does if absent. */
  takesLayout?(layer: number): boolean;
  /**
   * Lets a node take its operands in a compiled segment's layout.
   *
   * @throws {RangeError} when the kernels do not support the layout.
   */
  openLayout?(layout: OperandLayout, constants: LayoutConstants): RecordAttention;
  /**
   * Changes the number of blocks of a pool between steps; what the blocks hold that stay is kept.
   *
   * @param pool 0 is the main one, the others are those of windows.
   * @returns false if there is no memory for it; the cache is as it was then.
   */
  resize?(numBlocks: number, pool: number): Promise<boolean>;
  dispose(): void;
}

/** Constants that an attention reads where a compiled segment leaves its operands. */
export interface LayoutConstants {
  /** f32 `[2, headDim]`, or of rows `[heads + kvHeads, headDim]`: the factors of the layout's norms. */
  readonly gammas?: Float32Array | undefined;
  /** f32 `[positions, headDim / 2]` each: the angles of the layout's rotation. */
  readonly angles?: { readonly cos: Float32Array; readonly sin: Float32Array } | undefined;
}

/** Buffers that an attention reads, and the one that it writes. */
export interface OperandBuffers {
  readonly q: GPUBuffer;
  readonly k: GPUBuffer;
  readonly v: GPUBuffer;
  readonly out: GPUBuffer;
}

/** Records the attention of one node on operands in one layout. */
export type RecordAttention = (buffers: OperandBuffers) => void;
