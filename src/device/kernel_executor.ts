/**
 * What a device runs of a step besides sessions: the kernels of compiled segments.
 *
 * @module
 */
import type { OperandLayout, Program } from "../program/program.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { StoredTensor } from "../graph/file/stored_tensor.ts";
import type { Tensor } from "./ort/ort.ts";
import type { DeviceWeights } from "./device_weights.ts";
import type { PagedAttention } from "./paged_attention.ts";

/** How to open the kernels of some programs. */
export interface KernelsOptions {
  readonly programs: readonly Program[];
  /** Most rows of a step. */
  readonly maxRows: number;
  /** Most rows that a program computes: what it needs for 1 to as many is compiled when it is opened. */
  readonly countMaxRows: (program: Program) => number;
  /** The caller's; absent on the CPU. */
  readonly weights?: DeviceWeights | undefined;
  /** Where other constants are read. */
  readonly files: ModelFiles;
  /** Memory that a second copy of weights may take; any if absent. */
  readonly spareBytes?: number | undefined;
  /** Attentions that read operands in the layout in which programs leave them. */
  readonly attention: PagedAttention;
  /** Memory of tensors that cross between a program's segments, with room for all rows of a tile; none on the CPU. */
  readonly getBuffers: (program: Program) => ReadonlyMap<string, GPUBuffer>;
  /** Names of the attentions' outputs, by layer. */
  readonly attentionOutputs: readonly string[];
  /** Reads a constant. */
  readonly readFloats: (tensor: StoredTensor) => Promise<Float32Array>;
}

/** Rows that a program computes. */
export interface KernelStep {
  /** The first that is computed; 0 if absent, and on a GPU. */
  readonly firstRow?: number;
  readonly numRows: number;
  /** Inputs of the first segment, and row numbers; on the CPU the inputs and outputs of every segment. */
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** The kernels of some programs. */
export interface KernelExecutor {
  /** Whether a row is computed alike, to the bit, in every program and among any number of rows. */
  readonly isExact?: boolean;
  /** Records a program's dispatches, which are submitted with what comes after them; on the CPU they run at once. */
  run(program: Program, step: KernelStep): void;
  /** Records the attention on operands in this layout; its result goes to the buffer of the attention's output. */
  attend(layout: OperandLayout): void;
  dispose(): void;
}
