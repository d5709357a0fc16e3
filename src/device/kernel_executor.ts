/**
 * Runs the kernels of compiled segments on a device.
 *
 * @module
 */
import type { OperandLayout, Program } from "../program/program.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { Tensor } from "./ort/ort.ts";
import type { DeviceWeights } from "./device_weights.ts";
import type { PagedAttention } from "./attention.ts";

/** Options for opening the kernels of programs. */
export interface KernelsOptions {
  readonly programs: readonly Program[];
  /** Maximum number of rows in a step. */
  readonly maxRows: number;
  /**
   * Maximum number of rows that a program computes. Everything needed for any number of rows up to this is compiled
   * when the program is opened.
   */
  readonly countMaxRows: (program: Program) => number;
  /** Weights in device memory, owned by the caller; absent on the CPU. */
  readonly weights?: DeviceWeights | undefined;
  /** Files with the other constants. */
  readonly files: ModelFiles;
  /** Memory that a second copy of the weights may take; unlimited if absent. */
  readonly spareBytes?: number | undefined;
  /** Attention that reads operands in the layout in which programs write them. */
  readonly attention: PagedAttention;
  /** Memory of tensors that pass between a program's segments, with room for all rows of a tile; none on the CPU. */
  readonly getBuffers: (program: Program) => ReadonlyMap<string, GPUBuffer>;
  /** Names of the attention outputs, by layer. */
  readonly attentionOutputs: readonly string[];
}

/** Rows that a program computes. */
export interface KernelStep {
  /** First row to compute; 0 if absent, and on a GPU. */
  readonly firstRow?: number;
  readonly numRows: number;
  /** Inputs of the first segment, and numbers of rows; on the CPU, all tensors that enter or leave a segment. */
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** The kernels of programs. */
export interface KernelExecutor {
  /** Whether a row's result is bit-identical in every program, and among any number of rows. */
  readonly isExact?: boolean;
  /** Records a program's dispatches, which are submitted together with later commands. On the CPU they run at once. */
  run(program: Program, step: KernelStep): void;
  /** Records attention on operands in this layout. Its result goes to the buffer of the attention's output. */
  attend(layout: OperandLayout): void;
  dispose(): void;
}
