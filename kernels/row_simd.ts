/**
 * The kernels for a few rows in WebAssembly SIMD: products with matrices, norms, sums and products of elements. All they
 * read and write lies in one linear memory.
 *
 * @module
 */
import { ACTIVATIONS } from "./activation.ts";
import { type AttentionExports, instantiateAttention } from "./attention_module.ts";
import { Arena } from "./attention_simd_memory.ts";
import {
  checkFloatProduct,
  type FloatMatrix,
  floatMatrixLength,
  floatProduct,
  floatScratchBytes,
  packFloats,
} from "./float_product.ts";
import { type KernelThreads, STEP_POLLS } from "./kernel_threads.ts";
import type { MatvecParams, NormParams } from "./matvec_params.ts";
import type { NormKernelParams } from "./norm.ts";
import type { PointwiseParams } from "./pointwise.ts";
import type { Addresses, ReadBytes, RowKernel } from "./row_kernel.ts";

/** Weights that share a scale, as in `wasm/product_layout.ts`. */
const BLOCK = 32;
const GROUP = 4;
const BLOCK_BYTES = 80;
/** Most rows that are multiplied with weights once read. */
const TILE_ROWS = 4;
const ROW_BLOCK_BYTES = 40;
/** Four bits. */
const LEVEL_MASK = 15;
/** Parts of a product: small enough that no thread waits long for another, large enough for streams of some pages. */
const PART_GROUPS = 64;
const MAX_PARTS = 32;
/** Bytes of weights that are packed at a time. */
const STAGED_BYTES = 4 * 2 ** 20;
const OPERATIONS = ["none", "add", "multiply"];

/** A kernel and what specialises it. */
type RowKernelParams =
  | { readonly kind: "matvec"; readonly params: MatvecParams }
  | { readonly kind: "norm"; readonly params: NormKernelParams }
  | { readonly kind: "pointwise"; readonly params: PointwiseParams };

/** @throws {RangeError} when the kernels cannot run it. */
export function checkRowKernel({ kind, params }: RowKernelParams): void {
  if (params.elem !== "f32" || (kind === "pointwise" && (params.from ?? "f32") !== "f32")) {
    throw new RangeError("On the CPU few rows are computed in f32.");
  }
  if (kind === "norm") checkFours(params.k);
  if (kind === "pointwise") checkFours(params.width);
  if (kind !== "matvec") return;
  if (params.weights.kind === "nbits") checkProduct(params);
  else checkFloatProduct(params);
}

function checkFours(length: number): void {
  if (length % 4 !== 0) throw new RangeError(`${length} elements: the CPU takes multiples of 4.`);
}

function checkProduct({ k, n, weights, gate, softcap }: MatvecParams): void {
  const isTaken = weights.kind === "nbits" && weights.bits === 4 && weights.blockSize === BLOCK &&
    !weights.hasZeroPoints && weights.allowsInt8 === true && softcap === 0;
  if (!isTaken) {
    throw new RangeError(
      "Kernels on the CPU read 4-bit weights in blocks of 32, symmetric, at accuracy level 4.",
    );
  }
  if (k % BLOCK !== 0 || [n, gate?.gateRow ?? 0, gate?.upRow ?? 0].some((size) => size % GROUP)) {
    throw new RangeError(`A product of ${n} by ${k}: the CPU takes multiples of 4 by 32.`);
  }
}

/** Elements that sums of integers are kept in. */
export type SumKind = "i16" | "i32";

/** Plans the memory: addresses are given out before it is allocated. */
export class RowArena {
  readonly arena = new Arena();
  readonly maxRows: number;
  readonly site = this.arena.reserve(12);
  readonly rows = this.arena.reserve(4);
  readonly floatRows = this.arena.reserve(3);
  readonly staged = { levels: this.arena.reserve(STAGED_BYTES / 4), scales: 0 };
  readonly #sums: SumKind;
  #maxK = 0;
  #scratchBytes = 0;

  /**
   * @param maxRows most rows of a step.
   * @param sums what sums of 32 products are kept in: x64 adds fewer of i16, ARM of i32; results are the same.
   */
  constructor(maxRows: number, sums: SumKind = Deno.build.arch === "x86_64" ? "i16" : "i32") {
    this.maxRows = maxRows;
    this.#sums = sums;
  }

  /** Room for a matrix of `outputs` by `k`. */
  reserveMatrix(k: number, outputs: number): number {
    this.#reserveShared(k, TILE_ROWS * partGroupsOf(outputs) * GROUP * 4);
    return this.arena.reserve(outputs / GROUP * (k / BLOCK) * BLOCK_BYTES / 4);
  }

  /** The same for one of f32. */
  reserveFloatMatrix(k: number, outputs: number): number {
    this.#reserveShared(k, floatScratchBytes(outputs, this.maxRows));
    return this.arena.reserve(floatMatrixLength({ k, outputs }));
  }

  #reserveShared(k: number, scratchBytes: number): void {
    this.#maxK = Math.max(this.#maxK, k);
    this.#scratchBytes = Math.max(this.#scratchBytes, scratchBytes);
  }

  /**
   * @param spareBytes that it may take.
   * @throws {StartupError} when there is not enough memory.
   */
  allocate(threads: KernelThreads, spareBytes?: number): SimdRows {
    const { arena, site, rows, floatRows, staged } = this;
    const scratchBytes = this.#scratchBytes;
    const shared: SharedAddresses = {
      ...{ site, rows, floatRows, scratchBytes, sumsInShorts: this.#sums === "i16" },
      staged: { ...staged, scales: arena.reserve(STAGED_BYTES / 16) },
      tiles: arena.reserve(this.maxRows * this.#maxK / BLOCK * ROW_BLOCK_BYTES / 4),
      normed: arena.reserve(this.maxRows * this.#maxK),
      scratch: arena.reserve(scratchBytes / 4 * threads.numThreads),
    };
    const what = "The weights of small steps";
    return new SimdRows(
      threads,
      shared,
      arena.allocate({ what, maxBytes: spareBytes, hasLargePages: true }),
    );
  }
}

function partGroupsOf(outputs: number): number {
  return Math.max(PART_GROUPS, Math.ceil(outputs / GROUP / MAX_PARTS));
}

/** Addresses of what all kernels share, and bytes of a thread's scratch memory. */
interface SharedAddresses {
  readonly site: number;
  readonly rows: number;
  readonly floatRows: number;
  readonly staged: { readonly levels: number; readonly scales: number };
  readonly tiles: number;
  readonly normed: number;
  readonly scratch: number;
  readonly scratchBytes: number;
  readonly sumsInShorts: boolean;
}

/** The memory and the kernels on it. */
export class SimdRows {
  readonly #threads: KernelThreads;
  readonly #shared: SharedAddresses;
  readonly #memory: WebAssembly.Memory;
  readonly #exports: AttentionExports;
  readonly #site: Uint32Array;
  readonly #rows: Uint32Array;

  constructor(threads: KernelThreads, shared: SharedAddresses, memory: WebAssembly.Memory) {
    this.#threads = threads;
    this.#shared = shared;
    this.#memory = memory;
    this.#exports = instantiateAttention(memory);
    this.#site = new Uint32Array(memory.buffer, shared.site, 12);
    this.#rows = new Uint32Array(memory.buffer, shared.rows, 4);
    // In the order of `QuantizedRows`.
    this.#rows.set([0, shared.tiles, LEVEL_MASK, Number(shared.sumsInShorts)]);
  }

  floats(at: number, length: number): Float32Array {
    return new Float32Array(this.#memory.buffer, at, length);
  }

  /**
   * Packs a matrix of 4-bit weights at address `at`, four outputs side by side.
   *
   * @param source.levels u8 `[outputs, k / 32, 16]`, and `source.scales` f32 `[outputs, k / 32]`.
   */
  async packMatrix(
    at: number,
    { k, outputs }: { readonly k: number; readonly outputs: number },
    source: { readonly levels: ReadBytes; readonly scales: ReadBytes },
  ): Promise<void> {
    const blocks = k / BLOCK;
    const { staged } = this.#shared;
    const most = Math.max(1, Math.floor(STAGED_BYTES / (k / 2 * GROUP)));
    const bytes = new Uint8Array(this.#memory.buffer);
    // Files are not read into shared memory.
    const piece = new Uint8Array(Math.min(most, outputs / GROUP) * GROUP * k / 2);
    for (let first = 0; first < outputs / GROUP; first += most) {
      const count = Math.min(most, outputs / GROUP - first);
      const levels = piece.subarray(0, count * GROUP * blocks * 16);
      await source.levels(first * GROUP * blocks * 16, levels);
      bytes.set(levels, staged.levels);
      const scales = piece.subarray(0, count * GROUP * blocks * 4);
      await source.scales(first * GROUP * blocks * 4, scales);
      bytes.set(scales, staged.scales);
      const into = at + first * blocks * BLOCK_BYTES;
      this.#exports.packBlocks(staged.levels, staged.scales, blocks, count, into);
    }
  }

  /** Packs a matrix of f32 at address `at`. @throws {RangeError} when a few of its rows do not fit the staging memory. */
  async packFloatMatrix(at: number, matrix: FloatMatrix, read: ReadBytes): Promise<void> {
    const staged = { at: this.#shared.staged.levels, length: STAGED_BYTES };
    await packFloats({ memory: this.#memory, exports: this.#exports, staged, at }, matrix, read);
  }

  /**
   * The kernel of a product.
   *
   * @param reuses whether its rows, normalised or quantised, are those of the product before it.
   * @throws {RangeError} when the kernel cannot run it.
   */
  product(
    params: MatvecParams,
    tensors: Addresses<"x" | "weights" | "out" | "affine" | "bias" | "residual">,
    reuses: boolean,
  ): RowKernel {
    if (params.weights.kind !== "nbits") return this.#floatProduct(params, tensors, reuses);
    checkRowKernel({ kind: "matvec", params });
    const { k, n, matrixRows, gate } = params;
    const blocks = k / BLOCK;
    const { site, rows, scratch, scratchBytes } = this.#shared;
    const partGroups = partGroupsOf(n);
    // In the order of `Product`.
    const words = Uint32Array.of(
      ...[blocks, n / GROUP, partGroups, tensors.weights!],
      ...[(gate?.gateRow ?? 0) / GROUP, gate ? 1 : 0, (gate?.upRow ?? 0) / GROUP],
      ACTIVATIONS.indexOf(params.activation),
      ...[tensors.bias ?? 0, tensors.residual ?? 0, tensors.out!],
      new Uint32Array(Float32Array.of(params.scale).buffer)[0]!,
    );
    const job = {
      kernel: "product",
      memory: this.#memory,
      exports: this.#exports,
      ...{ site, step: rows, items: 0, scratch, scratchBytes },
      numWorks: Math.ceil(n / GROUP / partGroups),
      polls: STEP_POLLS,
    } as const;
    const prepare = this.#preparation(params, tensors);
    return (numRows) => {
      this.#rows[0] = numRows;
      if (!reuses) prepare(numRows);
      this.#site.set(words);
      this.#threads.run({ ...job, flops: 2 * k * matrixRows * numRows });
    };
  }

  #floatProduct(
    params: MatvecParams,
    tensors: Addresses<"x" | "weights" | "out" | "affine" | "bias" | "residual">,
    reuses: boolean,
  ): RowKernel {
    const { norm, k, x } = params;
    const { normRow } = this.#exports;
    const numbers = numbersOf(norm, k, tensors.affine ?? 0);
    const normRows = (numRows: number) => {
      for (let row = 0; row < numRows; row++) {
        const at = tensors.x! + (row * x.stride + x.offset) * 4;
        normRow(at, k, ...numbers, this.#shared.normed + row * k * 4);
      }
    };
    const own = { threads: this.#threads, memory: this.#memory, exports: this.#exports };
    const rows = this.#shared.floatRows;
    return floatProduct({ ...this.#shared, ...own, rows, polls: STEP_POLLS }, params, {
      tensors,
      normRows: norm && !reuses ? normRows : undefined,
    });
  }

  /** Norm of rows, and their levels. */
  #preparation(
    { k, x, norm }: MatvecParams,
    { x: from, affine = 0 }: Addresses<"x" | "affine">,
  ): RowKernel {
    const { normed, rows } = this.#shared;
    const { normRow, quantizeRow } = this.#exports;
    const numbers = numbersOf(norm, k, affine);
    return (numRows) => {
      for (let row = 0; row < numRows; row++) {
        const at = from! + (row * x.stride + x.offset) * 4;
        if (norm) normRow(at, k, ...numbers, normed);
        quantizeRow(norm ? normed : at, k / BLOCK, rows, row);
      }
    };
  }

  norm(
    { k, heads, x, norm, hasResidual }: NormKernelParams,
    { x: from, affine, residual, out }: Addresses<"x" | "affine" | "residual" | "out">,
  ): RowKernel {
    const { normRow, pointwiseRow } = this.#exports;
    const numbers = numbersOf(norm, k, affine!);
    return (numRows) => {
      for (let row = 0; row < numRows; row++) {
        const into = out! + row * heads * k * 4;
        for (let head = 0; head < heads; head++) {
          const at = from! + (row * x.stride + x.offset + head * k) * 4;
          normRow(at, k, ...numbers, into + head * k * 4);
        }
        if (!hasResidual) continue;
        pointwiseRow(into, residual! + row * heads * k * 4, heads * k, 1, 0, 1, into);
      }
    };
  }

  pointwise(
    { width, a, b, operation, activation, scale }: PointwiseParams,
    tensors: Addresses<"a" | "b" | "out">,
  ): RowKernel {
    const { pointwiseRow } = this.#exports;
    const numbers = [OPERATIONS.indexOf(operation), ACTIVATIONS.indexOf(activation)] as const;
    return (numRows) => {
      for (let row = 0; row < numRows; row++) {
        const first = tensors.a! + (row * a.stride + a.offset) * 4;
        const second = (tensors.b ?? 0) + (row * b.stride + b.offset) * 4;
        pointwiseRow(first, second, width, ...numbers, scale, tensors.out! + row * width * 4);
      }
    };
  }

  /** Makes the threads drop the memory, which the engine frees once it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory);
  }
}

/** What tells `normRow` of a norm: its kind, and where its factors and offsets are. */
function numbersOf(
  norm: NormParams | undefined,
  k: number,
  affine: number,
): [isLayer: number, epsilon: number, gamma: number, beta: number] {
  const { kind = "rms", epsilon = 0, hasBeta = false } = norm ?? {};
  return [kind === "layer" ? 1 : 0, epsilon, affine, hasBeta ? affine + k * 4 : 0];
}
