/**
 * The kernels for few rows in WebAssembly SIMD: matrix products, norms, and elementwise operations. All they read and
 * write lies in one linear memory.
 *
 * @module
 */
import { ACTIVATIONS, OPERATIONS } from "../common/activation.ts";
import { instantiateKernels, type KernelExports } from "./kernel_module.ts";
import {
  type Addresses,
  checkFloatProduct,
  checkNbitsProduct,
  chooseRowLevels,
  type FloatMatrix,
  floatProduct,
  nbitsProduct,
  packFloats,
  type RowKernel,
  type RowLevels,
} from "../matmul/row_products.ts";
import { type KernelThreads, STEP_POLLS } from "./kernel_threads.ts";
import type { MatvecParams, NormParams } from "../matmul/matvec_params.ts";
import { BLOCK, type NbitsMatrix, type NbitsSource, packNbits } from "../matmul/nbits_matrix.ts";
import type { NormKernelParams, PointwiseParams, RotateParams } from "../rows/row_kernels.ts";
import { checkRotary } from "../attention/kv_write.ts";
import type { ReadBytes } from "./arena.ts";
import { MAX_ANGLES, type RowMemory } from "./row_arena.ts";

/** Mask of a 4-bit level. */
const LEVEL_MASK = 15;

/** A kernel and its parameters. */
type RowKernelParams =
  | { readonly kind: "matvec"; readonly params: MatvecParams }
  | { readonly kind: "norm"; readonly params: NormKernelParams }
  | { readonly kind: "pointwise"; readonly params: PointwiseParams }
  | { readonly kind: "rotate"; readonly params: RotateParams };

/** @throws {RangeError} when the kernels cannot run it. */
export function checkRowKernel({ kind, params }: RowKernelParams): void {
  if (params.elem !== "f32" || (kind === "pointwise" && (params.from ?? "f32") !== "f32")) {
    throw new RangeError("The CPU's kernels for few rows only take f32.");
  }
  if (kind === "norm") checkFours(params.k);
  if (kind === "rotate") {
    checkFours(params.headSize);
    checkRotary(params, params.headSize);
    if (params.size > MAX_ANGLES) {
      throw new RangeError(
        `${params.size} elements of a head are rotated: the CPU takes ${MAX_ANGLES} at most.`,
      );
    }
  }
  if (kind !== "matvec") return;
  if (params.weights.kind === "nbits") checkNbitsProduct(params);
  else checkFloatProduct(params);
}

function checkFours(length: number): void {
  if (length % 4 !== 0) throw new RangeError(`${length} elements: the CPU takes multiples of 4.`);
}

/** A memory and the kernels that run on it. */
export class SimdRows {
  readonly #threads: KernelThreads;
  readonly #memory: RowMemory;
  readonly #exports: KernelExports;

  /** @param memory must have scratch memory for all threads. */
  constructor(threads: KernelThreads, memory: RowMemory) {
    this.#threads = threads;
    this.#memory = memory;
    this.#exports = instantiateKernels(memory.memory);
    // The words are in the order of `QuantizedRows`' fields.
    new Uint32Array(memory.memory.buffer, memory.rows, 4)
      .set([0, memory.tiles, LEVEL_MASK, Number(memory.sumsInShorts)]);
  }

  floats(at: number, length: number): Float32Array {
    return new Float32Array(this.#memory.memory.buffer, at, length);
  }

  /** Packs a quantised matrix and writes it to address `at`. */
  async packMatrix(at: number, matrix: NbitsMatrix, source: NbitsSource): Promise<void> {
    const { memory, staged } = this.#memory;
    await packNbits({ memory, exports: this.#exports, staged, at }, matrix, source);
  }

  /**
   * Packs a matrix of f32 and writes it to address `at`.
   *
   * @throws {RangeError} when a few of its rows do not fit the staging memory.
   */
  async packFloatMatrix(at: number, matrix: FloatMatrix, read: ReadBytes): Promise<void> {
    const { memory, staged: { levels, length } } = this.#memory;
    const staged = { at: levels, length };
    await packFloats({ memory, exports: this.#exports, staged, at }, matrix, read);
  }

  /**
   * The kernel of a matrix product.
   *
   * @param reuses whether the product takes the same normalised or quantised rows as the previous product.
   * @throws {RangeError} when the kernel cannot run it.
   */
  product(
    params: MatvecParams,
    tensors: Addresses<"x" | "weights" | "out" | "affine" | "bias" | "residual">,
    reuses: boolean,
  ): RowKernel {
    const { floatRows, ...addresses } = this.#memory;
    const own = { threads: this.#threads, exports: this.#exports, polls: STEP_POLLS };
    const memory = { ...own, ...addresses };
    if (params.weights.kind === "nbits") {
      const levels = chooseRowLevels(params.weights);
      const quantizeRows = reuses ? undefined : this.#quantization(params, tensors, levels);
      return nbitsProduct(memory, params, { tensors, quantizeRows });
    }
    const normRows = reuses ? undefined : this.#normalization(params, tensors);
    return floatProduct({ ...memory, rows: floatRows }, params, { tensors, normRows });
  }

  /** The norm of rows, if there is one. */
  #normalization(
    { norm, k, x }: MatvecParams,
    { x: from, affine = 0 }: Addresses<"x" | "affine">,
  ): RowKernel | undefined {
    if (norm === undefined) return undefined;
    const { normRow } = this.#exports;
    const numbers = toNumbers(norm, k, affine);
    return (numRows) => {
      for (let row = 0; row < numRows; row++) {
        const at = from! + (row * x.stride + x.offset) * 4;
        normRow(at, k, ...numbers, this.#memory.normed + row * k * 4);
      }
    };
  }

  /** Normalises rows and quantises them. */
  #quantization(
    { k, x, norm }: MatvecParams,
    { x: from, affine = 0 }: Addresses<"x" | "affine">,
    { copies, isPaired }: RowLevels,
  ): RowKernel {
    const { normed, rows } = this.#memory;
    const { normRow, quantizeRow, quantizePair } = this.#exports;
    const numbers = toNumbers(norm, k, affine);
    return (numRows) => {
      for (let row = 0; row < numRows; row++) {
        const at = from! + (row * x.stride + x.offset) * 4;
        if (norm) normRow(at, k, ...numbers, normed);
        const values = norm ? normed : at;
        if (isPaired) quantizePair(values, k / BLOCK, rows, 2 * row, copies);
        else quantizeRow(values, k / BLOCK, rows, row, copies);
      }
    };
  }

  norm(
    { k, heads, x, norm, hasResidual }: NormKernelParams,
    { x: from, affine, residual, out }: Addresses<"x" | "affine" | "residual" | "out">,
  ): RowKernel {
    const { normRow, pointwiseRow } = this.#exports;
    const numbers = toNumbers(norm, k, affine!);
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
    { width, a, b, repeats = 1, operation, activation, scale }: PointwiseParams,
    tensors: Addresses<"a" | "b" | "out">,
  ): RowKernel {
    const { pointwiseRow } = this.#exports;
    const kind = ACTIVATIONS.indexOf(activation);
    if (repeats > 1) {
      // Each part of a row is multiplied by a number, its `factor`; no other operation repeats `b`.
      const floats = new Float32Array(this.#memory.memory.buffer, tensors.b!);
      return (numRows) => {
        for (let row = 0; row < numRows; row++) {
          const first = tensors.a! + (row * a.stride + a.offset) * 4;
          const into = tensors.out! + row * width * 4;
          for (let part = 0; part < width / repeats; part++) {
            const factor = scale * floats[row * b.stride + b.offset + part]!;
            const at = part * repeats * 4;
            pointwiseRow(first + at, first + at, repeats, 0, kind, factor, into + at);
          }
        }
      };
    }
    const numbers = [OPERATIONS.indexOf(operation), kind] as const;
    return (numRows) => {
      for (let row = 0; row < numRows; row++) {
        const first = tensors.a! + (row * a.stride + a.offset) * 4;
        const second = (tensors.b ?? 0) + (row * b.stride + b.offset) * 4;
        pointwiseRow(first, second, width, ...numbers, scale, tensors.out! + row * width * 4);
      }
    };
  }

  /** Rotates the heads of rows by their position, or, with `sections`, by several positions per token. */
  rotate(
    { heads, headSize, size, isInterleaved, sections, x, numPositions }: RotateParams,
    { x: from, cos, sin, out }: Addresses<"x" | "cos" | "sin" | "out">,
  ): (positions: readonly BigInt64Array[]) => void {
    const { rotateRow } = this.#exports;
    const numbers = [heads, headSize, size, isInterleaved ? 1 : 0] as const;
    const half = size / 2;
    const getRow = (positions: BigInt64Array, row: number) =>
      Math.min(Number(positions[row]!), numPositions - 1) * half;
    const floats = new Float32Array(this.#memory.memory.buffer);
    const { angles } = this.#memory;
    /**
     * Collects a token's angles.
     *
     * @returns their addresses.
     */
    const joinAngles = (positions: readonly BigInt64Array[], row: number) => {
      const rows = positions.map((own) => getRow(own, row));
      sections!.forEach((section, i) => {
        floats[angles / 4 + i] = floats[cos! / 4 + rows[section]! + i]!;
        floats[angles / 4 + half + i] = floats[sin! / 4 + rows[section]! + i]!;
      });
      return [angles, angles + half * 4] as const;
    };
    const findAngles = (positions: readonly BigInt64Array[], row: number) => {
      const at = getRow(positions[0]!, row) * 4;
      return [cos! + at, sin! + at] as const;
    };
    const readAngles = sections ? joinAngles : findAngles;
    return (positions) => {
      for (let row = 0; row < positions[0]!.length; row++) {
        const at = from! + (row * x.stride + x.offset) * 4;
        const into = out! + row * heads * headSize * 4;
        rotateRow(at, ...numbers, ...readAngles(positions, row), into);
      }
    };
  }

  /** Makes the threads drop the memory. The JavaScript engine frees it when it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory.memory);
  }
}

/** The words that describe a norm to `normRow`: its kind, and the addresses of its factors and offsets. */
function toNumbers(
  norm: NormParams | undefined,
  k: number,
  affine: number,
): [isLayer: number, epsilon: number, gamma: number, beta: number] {
  const { kind = "rms", epsilon = 0, hasBeta = false } = norm ?? {};
  return [kind === "layer" ? 1 : 0, epsilon, affine, hasBeta ? affine + k * 4 : 0];
}
