/**
 * Mixtures of experts in WebAssembly SIMD. Weights are kept in linear memory as stored in the file. If weights are
 * quantised in blocks, input rows are rounded to 16-bit integers, which are more exact than f16.
 *
 * @module
 */
import { Arena, type ReadBytes } from "../cpu/arena.ts";
import { instantiateKernels, type KernelExports } from "../cpu/kernel_module.ts";
import { type KernelThreads, STEP_POLLS } from "../cpu/kernel_threads.ts";
import {
  type ExpertLayer,
  factorAt,
  MAX_ROWS,
  PART_OUTPUTS,
  type PlacedLayer,
  placeLayer,
  reserveScratch,
  rowBytes,
  type Scratch,
  STEP_WORDS,
} from "./experts_memory.ts";
import { countFirstOutputs, type ExpertProduct, type ExpertsParams } from "./experts_params.ts";

/** Number of bytes read at a time. */
const READ_BYTES = 8 * 2 ** 20;

/** Rows of `x`, the router's logits, and the destination of the results: `[numRows, hidden]`. */
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
  readonly #exports: KernelExports;
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
    this.#exports = instantiateKernels(memory);
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
    const placed = layers.map((layer) => placeLayer(arena, layer, scratch));
    const memory = arena.allocate({ what: "The weights of experts", hasLargePages: true });
    for (const [i, layer] of layers.entries()) {
      for (const name of ["first", "second"] as const) {
        const { weights: { at, bytes } } = placed[i]![name];
        await read(memory, at, { bytes, source: layer[name].weights });
      }
    }
    return new SimdExperts(threads, memory, { layers: placed, scratch });
  }

  /** Runs a layer, as many rows at a time as fit into memory. */
  run(layer: number, rows: ExpertRows): void {
    const placed = this.#layers[layer]!;
    for (let first = 0; first < rows.numRows; first += MAX_ROWS) {
      this.#runRows(placed, rows, { first, count: Math.min(MAX_ROWS, rows.numRows - first) });
    }
  }

  /** Makes the threads drop the memory. The JavaScript engine frees it when it is unreferenced. */
  dispose(): void {
    this.#threads.release(this.#memory);
  }

  #runRows(
    { params, routerBias, first, second }: PlacedLayer,
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
    this.#multiply(first.words, {
      numItems,
      numPairs,
      perRow: topK,
      outputs: countFirstOutputs(params),
    });
    if (params.second.matrix.kind === "nbits") {
      const factor = factorAt(params.second);
      const bytes = rowBytes(params.second, inner);
      for (let pair = 0; pair < numPairs; pair++) {
        const from = between + pair * inner * 4;
        this.#exports.quantizeShorts(from, inner, factor, hiddenRows + pair * bytes);
      }
    }
    this.#multiply(second.words, { numItems, numPairs, perRow: 1, outputs: hidden });
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

  /** Converts a row to the format of the first product, and writes it to `rows`, the product's input. */
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
      numParts: numItems * Math.ceil(count / PART_OUTPUTS),
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

/** Reads through a buffer, since files cannot be read into shared memory. */
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

/** The chosen experts and their weights: `topK` per row, the largest probability plus bias first. */
interface Routes {
  readonly experts: Uint32Array;
  readonly weights: Float32Array;
}

/**
 * Routes the rows `[first, first + numRows)` of `logits`.
 *
 * @param bias added to the probabilities when experts are chosen.
 */
export function routeRows(
  { experts, topK, logits: { stride, offset }, router }: ExpertsParams,
  logits: ArrayLike<number>,
  { first, numRows, bias }: {
    readonly first: number;
    readonly numRows: number;
    readonly bias?: Float32Array | undefined;
  },
): Routes {
  const { scores, normalizes, epsilon, scale, prefersLast } = router;
  const routes = {
    experts: new Uint32Array(numRows * topK),
    weights: new Float32Array(numRows * topK),
  };
  const probabilities = new Float64Array(experts);
  const keys = new Float64Array(experts);
  for (let row = 0; row < numRows; row++) {
    const start = (first + row) * stride + offset;
    let highest = -Infinity;
    for (let e = 0; e < experts; e++) highest = Math.max(highest, logits[start + e]!);
    let sum = 0;
    for (let e = 0; e < experts; e++) {
      const logit = logits[start + e]!;
      const value = scores === "softmax" ? Math.exp(logit - highest) : 1 / (1 + Math.exp(-logit));
      probabilities[e] = value;
      sum += value;
    }
    for (let e = 0; e < experts; e++) {
      if (scores === "softmax") probabilities[e]! /= sum;
      // Compared in f32, so that ties are the same as on a GPU.
      keys[e] = Math.fround(probabilities[e]! + (bias?.[e] ?? 0));
    }
    let mass = epsilon;
    for (let j = 0; j < topK; j++) {
      let best = -1;
      for (let e = 0; e < experts; e++) {
        const isBetter = best < 0 || keys[e]! > keys[best]! ||
          (prefersLast && keys[e]! === keys[best]!);
        if (isBetter) best = e;
      }
      keys[best] = -Infinity;
      mass += probabilities[best]!;
      routes.experts[row * topK + j] = best;
      routes.weights[row * topK + j] = probabilities[best]!;
    }
    for (let j = 0; j < topK; j++) {
      routes.weights[row * topK + j]! *= scale / (normalizes ? mass : 1);
    }
  }
  return routes;
}

/** The pairs (row, one of its experts), sorted by expert. */
interface ExpertOrder {
  readonly pairs: Uint32Array;
  /** Three words for each expert that has pairs: its number, the first of its pairs, and their end. */
  readonly items: Uint32Array;
}

/** Sorts pairs by expert, keeping the order within each expert. */
export function orderByExpert(experts: Uint32Array, numExperts: number): ExpertOrder {
  const ends = new Uint32Array(numExperts + 1);
  for (const expert of experts) ends[expert + 1]!++;
  for (let e = 0; e < numExperts; e++) ends[e + 1]! += ends[e]!;
  const items: number[] = [];
  for (let e = 0; e < numExperts; e++) {
    if (ends[e + 1]! > ends[e]!) items.push(e, ends[e]!, ends[e + 1]!);
  }
  const next = ends.slice();
  const pairs = new Uint32Array(experts.length);
  experts.forEach((expert, pair) => pairs[next[expert]!++] = pair);
  return { pairs, items: Uint32Array.from(items) };
}
