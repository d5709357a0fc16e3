/**
 * Attention over a paged KV cache, as a decoder uses it, and the kernels' parameters for an attention node.
 *
 * @module
 */
import type {
  AttentionShape,
  CachePool,
  WindowPool,
} from "../../kernels/attention/attention_shape.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import type { OperandLayout } from "../program/program.ts";
import type { AttentionNode, HeadRows } from "../graph/graph_cut.ts";
import type { Tensor } from "./ort/ort.ts";
import type { HeadNormParams, KvWriteParams, RowLayout } from "../../kernels/attention/kv_write.ts";
import type { AttentionParams } from "../../kernels/attention/paged_attention.ts";
import type { Elem } from "../gpu/kernel.ts";

/** The parameters of a paged attention. */
export interface AttentionOptions extends CachePool {
  readonly nodes: readonly AttentionNode[];
  /** Pools of the nodes with a window; if absent, all nodes are in the main pool. */
  readonly windows?: readonly WindowPool[] | undefined;
  readonly blockSize: number;
  /** Whether keys and values are cached in 8 bits. */
  readonly isQuantized?: boolean | undefined;
  /** Whether the rows of a prompt must be bit-identical however it is divided into steps. */
  readonly isInvariant?: boolean | undefined;
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly maxBlocksPerSequence: number;
  /** Rotary tables and sinks that the nodes name, as f32. */
  readonly constants: ReadonlyMap<string, Float32Array>;
}

/** The parts of a step that attention needs. */
export interface AttentionStep extends PackedStep {
  /** Slot of the encoder's keys and values for each sequence that attends to an encoder. */
  readonly sequences: readonly { readonly encoderSlot?: number | undefined }[];
  /** Rows in rotary tables with sections, i32 `[numTokens]` each; if absent, `anglePositions` apply to all sections. */
  readonly sectionPositions?: readonly Int32Array[] | undefined;
}

/** Attention over a paged KV cache. There is one call per node and step. */
export interface PagedAttention {
  /**
   * Sets the layout of the next step, whose arrays may change once the step is over. Called again when a suspended step
   * continues after another step has run.
   */
  begin(step: AttentionStep): void;
  /**
   * Writes the keys and values of node `layer` into the cache, attends, and writes the result to `output`.
   *
   * @param tensors by name, including the node's q, k and v.
   * @param output destination of the result; allocated if absent.
   * @param slices divides the work, if present; used only on the CPU.
   */
  run(
    layer: number,
    tensors: ReadonlyMap<string, Tensor>,
    output: Tensor | undefined,
    slices?: Slices,
  ): Tensor | Promise<Tensor>;
  /** Whether node `layer` reads its operands through {@linkcode openLayout}; if absent, none does. */
  takesLayout?(layer: number): boolean;
  /**
   * Makes a node read its operands in a compiled segment's layout.
   *
   * @throws {RangeError} when the kernels do not support the layout.
   */
  openLayout?(layout: OperandLayout, constants: LayoutConstants): RecordAttention;
  /**
   * Changes the number of blocks of a pool between steps, and keeps the content of blocks that remain.
   *
   * @param pool 0 is the main one, the others are those of windows.
   * @returns false if there is no memory for it, in which case the cache is unchanged.
   */
  resize?(numBlocks: number, pool: number): Promise<boolean>;
  dispose(): void;
}

/** Constants that attention reads for the layout in which a compiled segment writes its operands. */
export interface LayoutConstants {
  /** Factors of the layout's norms: f32 `[2, headDim]`, or for norms of whole rows `[heads + kvHeads, headDim]`. */
  readonly gammas?: Float32Array | undefined;
  /** Cosines and sines of the layout's rotation: f32 `[positions, headDim / 2]` each. */
  readonly angles?: { readonly cos: Float32Array; readonly sin: Float32Array } | undefined;
}

/** Buffers that attention reads, and the one that it writes. */
export interface OperandBuffers {
  readonly q: GPUBuffer;
  readonly k: GPUBuffer;
  readonly v: GPUBuffer;
  readonly out: GPUBuffer;
}

/** Records the attention of one node on operands in one layout. */
export type RecordAttention = (buffers: OperandBuffers) => void;

/** The kernels' parameters for one node. */
export interface KernelParams {
  readonly shape: AttentionShape;
  readonly write: KvWriteParams;
  readonly attend: AttentionParams;
}

/**
 * Converts a node to the kernels' parameters.
 *
 * @param elem the element type of the cache and of what the kernels read and write.
 * @throws {RangeError} when keys and values have heads of different sizes.
 */
export function toKernelParams(
  node: AttentionNode,
  options: {
    readonly blockSize: number;
    readonly elem: Elem;
    readonly norms?: HeadNormParams | undefined;
    /** Whether the cache is in 8 bits. */
    readonly isQuantized?: boolean | undefined;
  },
): KernelParams {
  const { heads, kvHeads, headDim, rotary } = node;
  requireEqualHeads(node);
  // Rotated or normalised queries are written packed; others are read in place.
  const isWritten = rotary !== undefined || options.norms?.ofQueries;
  const { blockSize, elem, isQuantized } = options;
  return {
    shape: { heads, kvHeads, headSize: headDim, blockSize, elem, isQuantized },
    write: {
      rotary: rotary && {
        size: rotary.dim,
        isInterleaved: rotary.interleaved,
        isByToken: rotary.sections !== undefined,
      },
      norms: options.norms,
      q: toRowLayout(node.q),
      k: toRowLayout(node.k),
      v: toRowLayout(node.v),
    },
    attend: {
      scale: node.scale,
      softcap: node.softcap ?? 0,
      window: node.localWindow ?? 0,
      hasSinks: node.sinks !== undefined,
      hasSlopes: node.slopes !== undefined,
      queryStride: isWritten ? heads * headDim : node.q.tokenStride,
      queryOffset: isWritten ? 0 : node.q.offset,
    },
  };
}

/** Checks heads. @throws {RangeError} when those of keys and values differ in size. */
export function requireEqualHeads(
  { name, headDim, vHeadDim }: Pick<AttentionNode, "name" | "headDim" | "vHeadDim">,
): void {
  if (headDim === vHeadDim) return;
  throw new RangeError(
    `"${name}" has keys of ${headDim} and values of ${vHeadDim} elements; the kernels need equal ones.`,
  );
}

/** Converts the layout of an operand's rows; an operand that is absent has no elements. */
export function toRowLayout(rows: HeadRows | undefined): RowLayout {
  return { stride: rows?.tokenStride ?? 0, offset: rows?.offset ?? 0 };
}

/** Work that consists of units, whose results do not depend on how the work is divided. */
export interface DividedWork {
  /** Identifies similar work: units with the same key and weight take about the same time. */
  readonly key: object;
  /** Number of units, such as rows. */
  readonly length: number;
  /** Minimum number of units that are worth a part of their own. */
  readonly least: number;
  /** Maximum number of units in a part; unlimited if absent. */
  readonly most?: number;
  /** Duration of a unit relative to others with this key; 1 if absent. */
  readonly weight?: number;
  /** Number of equal parts into which each part divides itself; 1 if absent. */
  readonly numInner?: number;
}

/**
 * Divides a step's work, so that other sequences get their next tokens in between. While the step is suspended, other
 * steps run, and use all memory that is not the step's own.
 */
export interface Slices {
  /** Whether rows may be divided; otherwise each instruction is one part. */
  readonly divides: boolean;
  /**
   * Ends a part of the step.
   *
   * @param nextMs least duration of the next part, if known.
   * @returns a promise that resolves when the step continues, if it was suspended.
   */
  pause(nextMs?: number): Promise<void> | undefined;
  /** Does work in parts that end in time, if {@linkcode divides} is set. */
  divide(
    work: DividedWork,
    run: (first: number, end: number) => void | Promise<void>,
  ): Promise<void>;
}
