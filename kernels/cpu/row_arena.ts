/**
 * The linear memory of the kernels for few rows.
 *
 * @module
 */
import { Arena } from "./arena.ts";
import {
  countFloatMatrixElements,
  countFloatScratchBytes,
  countNbitsScratchBytes,
  countNbitsTilesElements,
} from "../matmul/row_products.ts";
import {
  countNbitsMatrixElements,
  type NbitsMatrix,
  numPlanes,
  type StagedMatrix,
} from "../matmul/nbits_matrix.ts";

/** Bytes of weights packed at a time. */
const STAGED_BYTES = 4 * 2 ** 20;

/** Maximum number of cosines and sines per token. */
export const MAX_ANGLES = 1024;

/** Integer type in which partial sums are kept. */
export type SumKind = "i16" | "i32";

/** Plans the memory: addresses are assigned before it is allocated. */
export class RowArena {
  readonly arena = new Arena();
  readonly maxRows: number;
  readonly node = this.arena.reserve(15);
  readonly rows = this.arena.reserve(4);
  readonly floatRows = this.arena.reserve(3);
  readonly angles = this.arena.reserve(MAX_ANGLES);
  readonly staged = this.arena.reserve(STAGED_BYTES / 4);
  readonly #sums: SumKind;
  #maxK = 0;
  /** Maximum number of elements of a quantised row, including the copies of its blocks. */
  #maxLevels = 0;
  #scratchBytes = 0;

  /**
   * @param maxRows maximum number of rows of a step.
   * @param sums type for sums of 32 products, which does not affect results. x64 needs fewer additions with i16, ARM
   * with i32.
   */
  constructor(maxRows: number, sums: SumKind = Deno.build.arch === "x86_64" ? "i16" : "i32") {
    this.maxRows = maxRows;
    this.#sums = sums;
  }

  /** Reserves memory for a quantised matrix. */
  reserveMatrix(matrix: NbitsMatrix): number {
    const { k, outputs } = matrix;
    this.#maxLevels = Math.max(this.#maxLevels, k * numPlanes(matrix));
    this.#reserveShared(k, countNbitsScratchBytes(outputs));
    return this.arena.reserve(countNbitsMatrixElements(matrix));
  }

  /** Reserves memory for a matrix of `outputs` by `k` f32 elements. */
  reserveFloatMatrix(k: number, outputs: number): number {
    this.#reserveShared(k, countFloatScratchBytes(outputs, this.maxRows));
    return this.arena.reserve(countFloatMatrixElements({ k, outputs }));
  }

  #reserveShared(k: number, scratchBytes: number): void {
    this.#maxK = Math.max(this.#maxK, k);
    this.#scratchBytes = Math.max(this.#scratchBytes, scratchBytes);
  }

  /**
   * @param numThreads threads that need scratch memory of their own.
   * @param spareBytes maximum number of bytes to allocate.
   * @throws {StartupError} when there is not enough memory.
   */
  allocate(numThreads: number, spareBytes?: number): RowMemory {
    const { arena, node, rows, floatRows, angles, staged } = this;
    const scratchBytes = this.#scratchBytes;
    const addresses = {
      ...{ node, rows, floatRows, angles, scratchBytes, sumsInShorts: this.#sums === "i16" },
      staged: {
        levels: staged,
        scales: arena.reserve(STAGED_BYTES / 16),
        zeros: arena.reserve(STAGED_BYTES / 64),
        length: STAGED_BYTES,
      },
      tiles: arena.reserve(countNbitsTilesElements(this.maxRows, this.#maxLevels)),
      normed: arena.reserve(this.maxRows * this.#maxK),
      scratch: arena.reserve(scratchBytes / 4 * numThreads),
    };
    const what = "The weights of small steps";
    const memory = arena.allocate({ what, maxBytes: spareBytes, hasLargePages: true });
    return { memory, ...addresses };
  }
}

/** The allocated memory, and the addresses in it that all kernels share. */
export interface RowMemory {
  readonly memory: WebAssembly.Memory;
  readonly node: number;
  readonly rows: number;
  readonly floatRows: number;
  /** Address of a token's angles. */
  readonly angles: number;
  readonly staged: StagedMatrix;
  readonly tiles: number;
  readonly normed: number;
  readonly scratch: number;
  /** Bytes of scratch memory per thread. */
  readonly scratchBytes: number;
  readonly sumsInShorts: boolean;
}
