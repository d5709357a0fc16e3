/**
 * Mixtures of experts in WebAssembly SIMD. Weights lie in linear memory as their file has them; rows are rounded to 16
 * bits where weights are in blocks, which loses less than f16 does.
 *
 * @module
 */
import { ACTIVATIONS } from "../common/activation.ts";
import { Arena } from "../cpu/arena.ts";
import { type AttentionExports, instantiateAttention } from "../cpu/attention_module.ts";
import { type KernelThreads, STEP_POLLS } from "../cpu/kernel_threads.ts";
import type { ReadBytes } from "../cpu/row_kernel.ts";
import {
  checkExperts,
  type ExpertActivation,
  type ExpertProduct,
  type ExpertsParams,
  firstOutputs,
  gateRows,
} from "./experts_params.ts";
import { orderByExpert, routeRows } from "./route.ts";

/** In the order of `wasm/experts_layout.ts`. */
const KINDS = { bits4: 0, bits8: 1, floats: 2, halves: 3 };
const NODE_WORDS = 21;
const STEP_WORDS = 2;
/** Elements of a row that are rounded together, and the bytes that they take then. */
const CHUNK = 32;
const CHUNK_BYTES = 96;
/** Outputs of a part of the work: no thread waits long for another, and their weights fit the second cache. */
const PART_OUTPUTS = 64;
/** Pairs that are multiplied with a row of a matrix at a time. */
const TILE = 4;
/** Rows that are computed at a time. */
const MAX_ROWS = 128;
/** Bytes that are read at a time. */
const READ_BYTES = 8 * 2 ** 20;

/** Reads what a matrix of all experts is made of. */
export interface ExpertSource {
  /** Levels u8 `[experts, outputs, k * bits / 8]`, or numbers. */
  readonly weights: ReadBytes;
  /** Whether weights that are not quantised are f16. */
  readonly isHalf?: boolean;
  /** `[experts, outputs, k / blockSize]`. */
  readonly scales?: Float32Array | undefined;
  /** u8 `[experts, outputs, ceil(k / blockSize * bits / 8)]`. */
  readonly zeroPoints?: Uint8Array | undefined;
  readonly bias?: Float32Array | undefined;
}

/** A layer's parameters and where its weights are read. */
export interface ExpertLayer {
  readonly params: ExpertsParams;
  readonly routerBias?: Float32Array | undefined;
  readonly first: ExpertSource;
  readonly second: ExpertSource;
}

/** Addresses of a matrix; 0 for what it does without. */
interface PlacedMatrix {
  readonly weights: number;
  readonly scales: number;
  readonly zeros: number;
  readonly bias: number;
}

interface PlacedLayer extends Omit<ExpertLayer, "first" | "second"> {
  readonly first: PlacedMatrix;
  readonly second: PlacedMatrix;
  /** Words of the two products' structures. */
  readonly words: readonly [first: Uint32Array, second: Uint32Array];
}

/** Addresses of what layers share. */
interface Scratch {
  readonly node: number;
  readonly step: number;
  readonly items: number;
  readonly pairs: number;
  /** A row as f32, and rows as they are multiplied. */
  readonly row: number;
  readonly rows: number;
  readonly hidden: number;
  readonly hiddenRows: number;
  readonly products: number;
  readonly perThread: number;
  readonly perThreadBytes: number;
}

/** Rows of x, the router's logits, and where results go: `[numRows, hidden]`. */
interface ExpertRows {
  readonly x: Float32Array | Float16Array;
  readonly logits: Float32Array | Float16Array;
  readonly out: Float32Array | Float16Array;
  readonly numRows: number;
}

/** Layers whose weights lie in one linear memory. */
export class SimdExperts {
  readonly #threads: KernelThreads;
  readonly #memory: WebAssembly.Memory;
  readonly #exports: AttentionExports;
  readonly #layers: readonly PlacedLayer[];
  readonly #scratch: Scratch;

  private constructor(
    threads: KernelThreads,
    memory: WebAssembly.Memory,
    { layers, scratch }: {
      readonly layers: readonly PlacedLayer[];
      readonly scratch: Scratch;
    },
  ) {
    this.#threads = threads;
    this.#memory = memory;
    this.#exports = instantiateAttention(memory);
    this.#layers = layers;
    this.#scratch = scratch;
  }

  /**
   * Reads the weights.
   *
   * @throws {RangeError} when the kernel cannot run a layer.
   * @throws {StartupError} when there is not enough memory.
   */
  static async open(
    threads: KernelThreads,
    layers: readonly ExpertLayer[],
  ): Promise<SimdExperts> {
    const arena = new Arena();
    const all = layers.map(({ params }) => params);
    const scratch = reserveScratch(arena, all, threads.numThreads);
    const placed = layers.map((layer) => place(arena, layer, scratch));
    const memory = arena.allocate({ what: "The weights of experts", hasLargePages: true });
    for (const [i, { params, first, second }] of layers.entries()) {
      const { experts, hidden } = params;
      const sizes = (
        matrix: ExpertProduct["matrix"],
        source: ExpertSource,
        rows: number,
        k: number,
      ) => rows * k * (matrix.kind === "nbits" ? matrix.bits / 8 : source.isHalf ? 2 : 4);
      const outputs = firstOutputs(params);
      await read(memory, placed[i]!.first.weights, {
        bytes: sizes(params.first.matrix, first, experts * outputs, hidden),
        source: first.weights,
      });
      await read(memory, placed[i]!.second.weights, {
        bytes: sizes(params.second.matrix, second, experts * hidden, params.inner),
        source: second.weights,
      });
    }
    return new SimdExperts(threads, memory, { layers: placed, scratch });
  }

  /** Runs a layer, as many rows at a time as there is memory for. */
  run(layer: number, rows: ExpertRows): void {
    const placed = this.#layers[layer]!;
    for (let first = 0; first < rows.numRows; first += MAX_ROWS) {
      this.#runRows(placed, rows, { first, count: Math.min(MAX_ROWS, rows.numRows - first) });
    }
  }

  /** Makes the threads drop the memory, which the engine frees once it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory);
  }

  #runRows(
    { params, routerBias, words: [first, second] }: PlacedLayer,
    { x, logits, out }: ExpertRows,
    range: { readonly first: number; readonly count: number },
  ): void {
    const { hidden, inner, topK, experts } = params;
    const { rows, hiddenRows, hidden: between, products } = this.#scratch;
    const routes = routeRows(params, logits, {
      first: range.first,
      numRows: range.count,
      bias: routerBias,
    });
    const numPairs = range.count * topK;
    const order = orderByExpert(routes.experts, experts);
    this.#words(this.#scratch.pairs, numPairs).set(order.pairs);
    this.#words(this.#scratch.items, order.items.length).set(order.items);
    const numItems = order.items.length / 3;
    for (let row = 0; row < range.count; row++) {
      const start = (range.first + row) * params.x.stride + params.x.offset;
      this.#prepareRow(params.first, x.subarray(start, start + hidden), rows, row);
    }
    this.#multiply(first, { numItems, numPairs, perRow: topK, outputs: firstOutputs(params) });
    if (params.second.matrix.kind === "nbits") {
      const factor = factorAt(params.second);
      const bytes = rowBytes(params.second, inner);
      for (let pair = 0; pair < numPairs; pair++) {
        const from = between + pair * inner * 4;
        this.#exports.quantizeShorts(from, inner, factor, hiddenRows + pair * bytes);
      }
    }
    this.#multiply(second, { numItems, numPairs, perRow: 1, outputs: hidden });
    const all = this.#floats(products, numPairs * hidden);
    for (let row = 0; row < range.count; row++) {
      const sums = this.#floats(this.#scratch.row, hidden);
      sums.fill(0);
      for (let j = 0; j < topK; j++) {
        const pair = row * topK + j;
        const weight = routes.weights[pair]!;
        const start = pair * hidden;
        for (let n = 0; n < hidden; n++) sums[n]! += weight * all[start + n]!;
      }
      out.set(sums, (range.first + row) * hidden);
    }
  }

  /** Brings a row to where and how the first product reads it. */
  #prepareRow(
    product: ExpertProduct,
    row: Float32Array | Float16Array,
    rows: number,
    index: number,
  ): void {
    const at = rows + index * rowBytes(product, row.length);
    if (product.matrix.kind === "rows") {
      this.#floats(at, row.length).set(row);
      return;
    }
    const { row: floats } = this.#scratch;
    this.#floats(floats, row.length).set(row);
    this.#exports.quantizeShorts(floats, row.length, factorAt(product), at);
  }

  #multiply(
    words: Uint32Array,
    { numItems, numPairs, perRow, outputs }: {
      readonly numItems: number;
      readonly numPairs: number;
      readonly perRow: number;
      readonly outputs: number;
    },
  ): void {
    const { node, step, items, pairs, perThread, perThreadBytes } = this.#scratch;
    this.#words(node, words.length).set(words);
    this.#words(step, STEP_WORDS).set([pairs, perRow]);
    const [, k, , , count] = words as unknown as [number, number, number, number, number];
    this.#threads.run({
      kernel: "expertsProduct",
      memory: this.#memory,
      exports: this.#exports,
      ...{ node, step, items, scratch: perThread, scratchBytes: perThreadBytes },
      numWorks: numItems * Math.ceil(count / PART_OUTPUTS),
      flops: 2 * k * outputs * numPairs,
      polls: STEP_POLLS,
    });
  }

  #words(at: number, length: number): Uint32Array {
    return new Uint32Array(this.#memory.buffer, at, length);
  }

  #floats(at: number, length: number): Float32Array {
    return new Float32Array(this.#memory.buffer, at, length);
  }
}

/** Bytes that a layer's weights take in memory. */
export function layerBytes({ params, first, second }: ExpertLayer): number {
  const { experts, hidden, inner } = params;
  const matrixBytes = (
    { matrix }: ExpertProduct,
    source: ExpertSource,
    outputs: number,
    k: number,
  ) => {
    const rows = experts * outputs;
    if (matrix.kind === "rows") return rows * k * (source.isHalf ? 2 : 4);
    const scales = k / Math.min(CHUNK, matrix.blockSize);
    return rows * (k * matrix.bits / 8 + scales * (matrix.hasZeroPoints ? 5 : 4));
  };
  return matrixBytes(params.first, first, firstOutputs(params), hidden) +
    matrixBytes(params.second, second, hidden, inner);
}

/** The factor of a quantised row's sum: minus the zero point, or -1 where blocks have zero points of their own. */
function factorAt({ matrix }: ExpertProduct): number {
  if (matrix.kind === "rows") return 0;
  return matrix.hasZeroPoints ? -1 : -(2 ** (matrix.bits - 1));
}

/** Bytes of a row of `k` elements as a product reads it. */
function rowBytes({ matrix }: ExpertProduct, k: number): number {
  return matrix.kind === "rows" ? k * 4 : k / CHUNK * CHUNK_BYTES;
}

function reserveScratch(
  arena: Arena,
  all: readonly ExpertsParams[],
  numThreads: number,
): Scratch {
  const most = (computeSize: (params: ExpertsParams) => number) =>
    Math.max(...all.map(computeSize));
  const pairs = most(({ topK }) => topK) * MAX_ROWS;
  const bytes = (count: number) => arena.reserve(Math.ceil(count / 4));
  // The two products' sums of a tile.
  const perThreadBytes = 2 * TILE * PART_OUTPUTS * 4;
  return {
    node: arena.reserve(NODE_WORDS),
    step: arena.reserve(STEP_WORDS),
    items: arena.reserve(3 * Math.min(pairs, most(({ experts }) => experts))),
    pairs: arena.reserve(pairs),
    row: arena.reserve(most(({ hidden }) => hidden)),
    rows: bytes(MAX_ROWS * most(({ first, hidden }) => rowBytes(first, hidden))),
    hidden: arena.reserve(pairs * most(({ inner }) => inner)),
    hiddenRows: bytes(pairs * most(({ second, inner }) => rowBytes(second, inner))),
    products: arena.reserve(pairs * most(({ hidden }) => hidden)),
    perThread: bytes(numThreads * perThreadBytes),
    perThreadBytes,
  };
}

function place(arena: Arena, layer: ExpertLayer, scratch: Scratch): PlacedLayer {
  const { params, routerBias } = layer;
  checkExperts(params);
  const { experts, hidden, inner, activation } = params;
  const outputs = firstOutputs(params);
  const first = placeMatrix(arena, params.first, layer.first, {
    rows: experts * outputs,
    k: hidden,
  });
  const second = placeMatrix(arena, params.second, layer.second, {
    rows: experts * hidden,
    k: inner,
  });
  const { rows, hiddenRows, hidden: between, products } = scratch;
  const { gate, up, step } = gateRows(params);
  const isRounded = params.second.matrix.kind === "nbits";
  const words = [
    nodeWords(params.first, layer.first, {
      ...{ k: hidden, outputs, count: inner, rows: [step, gate, up, activation.gate ? 1 : 0] },
      ...{ at: first, x: rows, out: between, activation },
    }),
    nodeWords(params.second, layer.second, {
      ...{ k: inner, outputs: hidden, count: hidden, rows: [1, 0, 0, 0] },
      ...{ at: second, x: isRounded ? hiddenRows : between, out: products, activation: PLAIN },
    }),
  ] as const;
  return { params, routerBias, first, second, words };
}

const PLAIN: ExpertActivation = { kind: "none", alpha: 1 };

/** The words of `ExpertsProduct`, in its order. */
function nodeWords(
  product: ExpertProduct,
  { isHalf }: ExpertSource,
  { k, outputs, count, rows, at, x, out, activation: { kind, alpha, gate } }: {
    readonly k: number;
    readonly outputs: number;
    readonly count: number;
    /** Step, gate, up, and whether there is a gate. */
    readonly rows: readonly [number, number, number, number];
    readonly at: PlacedMatrix;
    readonly x: number;
    readonly out: number;
    readonly activation: ExpertActivation;
  },
): Uint32Array {
  const { matrix } = product;
  const stored = matrix.kind === "nbits"
    ? matrix.bits === 4 ? KINDS.bits4 : KINDS.bits8
    : isHalf
    ? KINDS.halves
    : KINDS.floats;
  const hasHalves = matrix.kind === "nbits" && matrix.blockSize < CHUNK;
  const { beta = 0, limit = Infinity } = gate ?? {};
  return Uint32Array.of(
    ...[stored, k, hasHalves ? 1 : 0, outputs, count, ...rows, PART_OUTPUTS],
    ...[at.weights, at.scales, at.zeros, at.bias, ACTIVATIONS.indexOf(kind)],
    ...new Uint32Array(Float32Array.of(alpha, beta, limit).buffer),
    ...[x, rowBytes(product, k), out],
  );
}

function placeMatrix(
  arena: Arena,
  { matrix }: ExpertProduct,
  { isHalf, scales, zeroPoints, bias }: ExpertSource,
  { rows, k }: { readonly rows: number; readonly k: number },
): PlacedMatrix {
  const bits = matrix.kind === "nbits" ? matrix.bits : isHalf ? 16 : 32;
  const blocks = matrix.kind === "nbits"
    ? { blocks: k / matrix.blockSize, copies: Math.max(1, matrix.blockSize / CHUNK) }
    : undefined;
  const zeros = blocks && matrix.kind === "nbits" && zeroPoints
    ? spreadZeroPoints(zeroPoints, { bits: matrix.bits, rows, ...blocks })
    : undefined;
  return {
    weights: arena.reserve(rows * k * bits / 32),
    scales: scales && blocks ? arena.place(spreadScales(scales, blocks.copies)) : 0,
    zeros: zeros ? arena.place(zeros) : 0,
    bias: bias ? arena.place(bias) : 0,
  };
}

/** A scale for each chunk of a block. */
function spreadScales(scales: Float32Array, copies: number): Float32Array {
  if (copies === 1) return scales;
  return new Float32Array(scales.length * copies).map((_, i) => scales[Math.floor(i / copies)]!);
}

/** Zero points of a byte for each chunk of a block, in words. */
function spreadZeroPoints(
  packed: Uint8Array,
  { bits, rows, blocks, copies }: {
    readonly bits: 4 | 8;
    readonly rows: number;
    readonly blocks: number;
    readonly copies: number;
  },
): Uint32Array {
  const words = new Uint32Array(Math.ceil(rows * blocks * copies / 4));
  const bytes = new Uint8Array(words.buffer);
  const perRow = Math.ceil(blocks * bits / 8);
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blocks; block++) {
      const byte = packed[row * perRow + Math.floor(block * bits / 8)]!;
      const zero = bits === 8 ? byte : (byte >> (block % 2 * 4)) & 15;
      const first = (row * blocks + block) * copies;
      bytes.fill(zero, first, first + copies);
    }
  }
  return words;
}

/** Files are not read into shared memory. */
async function read(
  memory: WebAssembly.Memory,
  at: number,
  { bytes, source }: { readonly bytes: number; readonly source: ReadBytes },
): Promise<void> {
  const into = new Uint8Array(memory.buffer, at, bytes);
  const chunk = new Uint8Array(Math.min(READ_BYTES, bytes));
  for (let offset = 0; offset < bytes; offset += READ_BYTES) {
    const part = chunk.subarray(0, Math.min(READ_BYTES, bytes - offset));
    await source(offset, part);
    into.set(part, offset);
  }
}
