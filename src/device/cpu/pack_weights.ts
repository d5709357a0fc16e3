/**
 * Packs the weights of small steps into the layout that the CPU's kernels read. Large ones are packed on a thread,
 * while ONNX Runtime opens its sessions.
 *
 * @module
 */
import type { MatrixFormat } from "../../../kernels/matmul/matvec_params.ts";
import type { ReadBytes } from "../../../kernels/cpu/row_kernel.ts";
import type { SimdRows } from "../../../kernels/cpu/row_simd.ts";
import type { RowMemory } from "../../../kernels/cpu/row_arena.ts";
import { log } from "../../base/log.ts";
import { startThread } from "../../base/threads.ts";
import { FolderFiles, type ModelFiles } from "../../graph/file/external_data.ts";
import { readRange } from "../../graph/file/stored_range.ts";
import { storedBytes, type StoredTensor } from "../../graph/file/tensor.ts";

/** The matrix of a product, and the tensors that it is read from. */
export interface PlannedMatrix {
  readonly at: number;
  readonly k: number;
  readonly outputs: number;
  readonly format: MatrixFormat;
  readonly weights: StoredTensor;
  /** Scales of weights that are quantized in blocks. */
  readonly scales: StoredTensor | undefined;
  readonly zeroPoints: StoredTensor | undefined;
}

/** A job for the packing thread. */
export interface PackJob {
  /** Folder of the files, which is the model's folder. */
  readonly folder: string;
  readonly root: string;
  readonly memory: RowMemory;
  readonly matrices: readonly PlannedMatrix[];
}

/** Packing fewer bytes takes less time than starting a thread. */
const MIN_THREAD_BYTES = 64 * 2 ** 20;

/** Packs matrices, one after the other. @throws {StartupError} when a file is shorter or cannot be read. */
export async function packMatrices(
  rows: SimdRows,
  matrices: readonly PlannedMatrix[],
  files: ModelFiles,
): Promise<void> {
  const scratch = { bytes: new Uint8Array(0) };
  const makeReader = (tensor: StoredTensor): ReadBytes => (offset, into) =>
    readRange(tensor, { files, offset, scratch }, into);
  for (const { at, format, k, outputs, ...matrix } of matrices) {
    const weights = makeReader(matrix.weights);
    if (format.kind !== "nbits") {
      await rows.packFloatMatrix(at, { kind: format.kind, k, outputs }, weights);
      continue;
    }
    const { scales, zeroPoints } = matrix;
    await rows.packMatrix(at, { ...format, k, outputs }, {
      levels: weights,
      scales: makeReader(scales!),
      zeroPoints: zeroPoints && makeReader(zeroPoints),
    });
  }
}

/**
 * Packs weights, on a thread if that is quicker.
 *
 * @throws {StartupError} when a file is shorter than expected or cannot be read.
 */
export async function packWeights(
  { rows, memory, matrices, files }: {
    readonly rows: SimdRows;
    readonly memory: RowMemory;
    readonly matrices: readonly PlannedMatrix[];
    readonly files: ModelFiles;
  },
): Promise<void> {
  if (files instanceof FolderFiles && isForThread(matrices)) {
    try {
      return await packOnThread({ folder: files.folder, root: files.root, memory, matrices });
    } catch (error) {
      const { message: reason } = error as Error;
      log.warn("weights are packed without a thread, which takes longer", { reason });
    }
  }
  await packMatrices(rows, matrices, files);
}

function isForThread(matrices: readonly PlannedMatrix[]): boolean {
  const sources = matrices.flatMap(({ weights, scales, zeroPoints }) =>
    [weights, scales, zeroPoints].filter((source) => source !== undefined)
  );
  const bytes = sources.reduce((sum, source) => sum + storedBytes(source), 0);
  return bytes >= MIN_THREAD_BYTES && sources.every(isStored);
}

/** Whether a thread can read a tensor. Computed tensors contain a function, which cannot be sent to one. */
function isStored({ data }: StoredTensor): boolean {
  switch (data.kind) {
    case "computed":
      return false;
    case "widened":
    case "transposed":
    case "looked_up":
      return isStored(data.source);
    case "rows":
      return data.parts.every(({ source }) => isStored(source));
    default:
      return true;
  }
}

async function packOnThread(job: PackJob): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  startThread(new URL("./pack_thread.ts", import.meta.url), {
    workerData: job,
    isAwaited: true,
    onEnd: resolve,
  });
  const failure = await promise;
  if (failure !== undefined) throw new Error(failure);
}
