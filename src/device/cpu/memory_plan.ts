/**
 * The memory of programs on the CPU: the addresses of their tensors, and the weights in the layout that the kernels
 * read. Large weights are packed on a thread, while ONNX Runtime opens its sessions.
 *
 * @module
 */
import type { MatrixFormat } from "../../../kernels/matmul/matvec_params.ts";
import { RowArena, type RowMemory } from "../../../kernels/cpu/row_arena.ts";
import type { ReadBytes } from "../../../kernels/cpu/arena.ts";
import type { SimdRows } from "../../../kernels/cpu/row_simd.ts";
import { log } from "../../base/log.ts";
import { startThread } from "../../base/threads.ts";
import { FolderFiles, type ModelFiles } from "../../graph/file/external_data.ts";
import { readFloats, readRange, RowFile } from "../../graph/file/stored_range.ts";
import { countStoredBytes, type StoredTensor } from "../../graph/file/tensor.ts";
import type { Dispatch, Program } from "../../program/program.ts";
import type { KernelsOptions } from "../backend.ts";

/** Rows that are computed at a time. */
export const MAX_ROWS = 8;

/** Rows of tables larger than this are read from their file. */
const MAX_TABLE_BYTES = 4 * 2 ** 20;

/** Addresses of tensors, by name. */
export class MemoryPlan implements Disposable {
  readonly memory = new RowArena(MAX_ROWS);
  readonly matrices = new Map<string, PlannedMatrix>();
  /** Constants whose rows are looked up: an address, or the file of a large constant. */
  readonly tables = new Map<string, number | RowFile>();
  readonly #at = new Map<string, number>();

  /** Assigns addresses to the tensors that a program reads and writes. */
  async add(program: Program, { files }: KernelsOptions): Promise<void> {
    const constants = new Map(program.weights.map((tensor) => [tensor.name, tensor]));
    for (const dispatch of program.dispatches) {
      if (dispatch.kind === "matvec") this.#addMatrix(dispatch, constants);
      if (dispatch.kind === "take_rows") {
        const { table } = dispatch.tensors;
        const tensor = constants.get(table);
        if (tensor && !this.tables.has(table)) {
          this.tables.set(
            table,
            isLarge(tensor)
              ? await RowFile.open(tensor, files)
              : this.memory.arena.place(await readFloats(tensor, files)),
          );
        }
      }
      for (const [name, width] of listWidths(dispatch)) {
        if (this.#at.has(name)) continue;
        const tensor = constants.get(name);
        const at = tensor
          ? this.memory.arena.place(await readFloats(tensor, files))
          : this.memory.arena.reserve(MAX_ROWS * width);
        this.#at.set(name, at);
      }
    }
  }

  /** Closes the files of tables. */
  [Symbol.dispose](): void {
    for (const table of this.tables.values()) if (table instanceof RowFile) table[Symbol.dispose]();
  }

  getAddress(name: string): number {
    return this.#at.get(name) ?? this.matrices.get(name)!.at;
  }

  #addMatrix(
    { params: { k, matrixRows: outputs, weights: format }, tensors }: Extract<
      Dispatch,
      { kind: "matvec" }
    >,
    constants: ReadonlyMap<string, StoredTensor>,
  ): void {
    if (this.matrices.has(tensors.weights)) return;
    this.matrices.set(tensors.weights, {
      at: format.kind === "nbits"
        ? this.memory.reserveMatrix({ ...format, k, outputs })
        : this.memory.reserveFloatMatrix(k, outputs),
      k,
      outputs,
      format,
      weights: constants.get(tensors.weights)!,
      scales: constants.get(tensors.scales ?? ""),
      zeroPoints: constants.get(tensors.zeroPoints ?? ""),
    });
  }
}

/** Lists the tensors that a dispatch reads and writes, except matrices, each with its number of elements per row. */
export function listWidths(dispatch: Dispatch): [string, number][] {
  const { tensors } = dispatch;
  const widths = (() => {
    switch (dispatch.kind) {
      case "matvec": {
        const { k, n, x, matrixRows } = dispatch.params;
        return { x: x.stride, affine: 2 * k, bias: matrixRows, residual: n, out: n };
      }
      case "norm": {
        const { k, heads, x } = dispatch.params;
        return { x: x.stride, affine: 2 * k, residual: heads * k, out: heads * k };
      }
      case "pointwise": {
        const { a, b, width } = dispatch.params;
        return { a: a.stride, b: b.stride || width, out: width };
      }
      case "rotate": {
        const { heads, headSize, size, x } = dispatch.params;
        return { x: x.stride, cos: size / 2, sin: size / 2, out: heads * headSize };
      }
      case "take_rows":
        return { out: dispatch.params.rowBytes / 4 };
    }
  })();
  return Object.entries(widths).flatMap(([role, width]) => {
    const name = (tensors as Readonly<Record<string, string | undefined>>)[role];
    return name === undefined ? [] : [[name, width]];
  });
}

/** Whether the rows of a table are read from its file. */
export function isLarge(table: StoredTensor): boolean {
  return countStoredBytes(table) > MAX_TABLE_BYTES;
}

/** The matrix of a product, and the tensors that it is read from. */
interface PlannedMatrix {
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
  /** Folder of the graph's files; `root` is the model's folder. */
  readonly folder: string;
  readonly root: string;
  readonly memory: RowMemory;
  readonly matrices: readonly PlannedMatrix[];
}

/** Packing fewer bytes takes less time than starting a thread. */
const MIN_THREAD_BYTES = 64 * 2 ** 20;

/** Packs matrices, one after the other. @throws {StartupError} when a file is too short or cannot be read. */
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
  const bytes = sources.reduce((sum, source) => sum + countStoredBytes(source), 0);
  return bytes >= MIN_THREAD_BYTES && sources.every(isStored);
}

/** Whether a thread can read a tensor. Computed tensors contain a function, which cannot be sent to a thread. */
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
