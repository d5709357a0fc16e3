/**
 * Segments of a cut decoder, compiled to Hearth's kernels.
 *
 * @module
 */
import type { CompiledSegment } from "../onnx/compile/compile_cut.ts";
import type { ModelFiles } from "../onnx/file/external_data.ts";
import type { Tensor } from "../onnx/runtime/ort.ts";
import type { Lowering } from "../onnx/compile/program.ts";
import type { StoredTensor } from "../onnx/file/stored_tensor.ts";
import type { PagedAttention } from "./paged_attention.ts";
import type { DeviceWeights } from "./device_weights.ts";

/** How to open them. */
export interface SegmentsOptions {
  readonly segments: readonly CompiledSegment[];
  /** Most rows of a step. */
  readonly maxRows: number;
  /** The caller's; absent on the CPU. */
  readonly weights?: DeviceWeights | undefined;
  /** Where other constants are read. */
  readonly files: ModelFiles;
  /** Memory that a second copy of weights may take; any if absent. */
  readonly spareBytes?: number | undefined;
  /** Attentions that segments were compiled for read operands in the segments' layout. */
  readonly attention: PagedAttention;
  /** Memory of tensors that cross between segments, with room for all rows of a tile; none on the CPU. */
  readonly buffers: ReadonlyMap<string, GPUBuffer>;
  /** Names of the attentions' outputs, by layer. */
  readonly siteOutputs: readonly string[];
  /** Reads a constant. */
  readonly readFloats: (tensor: StoredTensor) => Promise<Float32Array>;
}

/** A step of a segment. */
export interface SegmentStep {
  readonly numRows: number;
  readonly lowering: Lowering;
  /** Those that enter the first segment, and numbers of rows; on the CPU all that enter the segment or leave it. */
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** Why the first of the segments that are not compiled is not. */
export function firstRefusal(segments: readonly CompiledSegment[]): string | undefined {
  return segments.flatMap((segment) => "refused" in segment ? segment.refused : [])[0];
}

export interface CompiledSegments {
  /** How many segments were compiled. */
  readonly numCompiled: number;
  /** Why the first of the others was not. */
  readonly refusal: string | undefined;
  /** Whether a segment was compiled. */
  has(index: number): boolean;
  /** Records a segment, which is submitted with what comes after it; on the CPU it runs at once. */
  record(index: number, step: SegmentStep): void;
  /**
   * Records the attention that computes `output` from operands in the segment's layout, into the output's buffer.
   *
   * @returns false if the operands are ordinary tensors.
   */
  attend(index: number, lowering: Lowering, output: string): boolean;
  dispose(): void;
}
