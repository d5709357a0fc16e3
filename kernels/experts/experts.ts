/**
 * A mixture of experts: a router chooses some of many feed-forward networks for each row, and their weighted outputs
 * are summed.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import { ELEM, FOUR } from "../common/wgsl.ts";
import combineShader from "./combine.wgsl" with { type: "text" };
import { checkExperts, type ExpertsParams } from "./experts_params.ts";
import {
  countMostTiles,
  countOutputsPerGroup,
  makeFewSource,
  makeManySource,
  orderWords,
  type ProductName,
  TILE_ROWS,
} from "./experts_source.ts";
import orderShader from "./order.wgsl" with { type: "text" };
import routeShader from "./route.wgsl" with { type: "text" };

/** The buffers of one expert matrix; a layer has two. */
export interface ExpertBuffers {
  /** u8 `[experts, outputs, k * bits / 8]`, or elem `[experts, outputs, k]`. */
  readonly weights: GPUBuffer;
  /** elem `[experts, outputs, k / blockSize]`. */
  readonly scales?: GPUBuffer | undefined;
  /** u8 `[experts, outputs, ceil(k / blockSize * bits / 8)]`. */
  readonly zeroPoints?: GPUBuffer | undefined;
  /** elem `[experts, outputs]`. */
  readonly bias?: GPUBuffer | undefined;
}

/** The buffers of a layer. `out` must not be one of the others. */
export interface ExpertsTensors {
  /** elem `[rows, x.stride]`. */
  readonly x: GPUBuffer;
  /** elem `[rows, logits.stride]`. */
  readonly logits: GPUBuffer;
  /** f32 `[experts]`, added to the probabilities when experts are chosen. */
  readonly routerBias?: GPUBuffer | undefined;
  readonly first: ExpertBuffers;
  readonly second: ExpertBuffers;
  /** elem `[rows, hidden]`. */
  readonly out: GPUBuffer;
}

const PRODUCT_BINDINGS = {
  x: "read",
  weights: "read",
  scales: "read",
  zeroPoints: "read",
  bias: "read",
  routes: "read",
  out: "read_write",
} as const;
const ROUTE_BINDINGS = {
  logits: "read",
  bias: "read",
  routes: "read_write",
  counts: "read_write",
} as const;
const ORDER_BINDINGS = { routes: "read", order: "read_write", counts: "read" } as const;
const COMBINE_BINDINGS = { products: "read", routes: "read", out: "read_write" } as const;

/** Number of vec4s that a workgroup of `combine` sums. */
const COMBINE_THREADS = 64;

/** Memory that layers share, since they run one after the other. */
export class ExpertsScratch {
  readonly routes: GPUBuffer;
  readonly counts: GPUBuffer;
  readonly order: GPUBuffer;
  readonly hidden: GPUBuffer;
  readonly products: GPUBuffer;
  readonly maxRows: number;

  /** @param params parameters of all layers. */
  constructor(gpu: GpuContext, params: readonly ExpertsParams[], maxRows: number) {
    const most = (computeSize: (each: ExpertsParams) => number) =>
      Math.max(...params.map(computeSize));
    const buffer = (label: string, words: number) =>
      createBuffer(gpu, {
        label,
        size: Math.ceil(words / 4) * 16,
        usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
      });
    this.maxRows = maxRows;
    this.routes = buffer("routes of experts", most(({ topK }) => 2 * topK * maxRows));
    this.counts = buffer("number of routes", 4);
    this.order = buffer("order of routes", most((each) => orderWords(each, maxRows)));
    this.hidden = buffer("between experts' products", most((p) => p.topK * p.inner * maxRows));
    this.products = buffer("experts' products", most((p) => p.topK * p.hidden * maxRows));
  }

  dispose(): void {
    for (const each of [this.routes, this.counts, this.order, this.hidden, this.products]) {
      each.destroy();
    }
  }
}

/**
 * For each row, let `p` be the router's probabilities from the row's logits, and `E` the experts with the largest `p +
 * bias`. The weights `w` are the probabilities of these experts times the router's scale. If the router normalises,
 * they are divided by the sum of these probabilities plus `epsilon`:
 *
 * `out[row] = sum over e in E of w[e] * (W2[e] · activated(W1[e] · x[row] + b1[e]) + b2[e])`
 *
 * Sums are f32. Few rows are multiplied one by one with the matrices of their experts (3 dispatches). Many rows are
 * grouped by expert and multiplied in tiles (5 dispatches). In both variants, a row's result does not depend on the
 * other rows.
 */
export class Experts {
  readonly #params: ExpertsParams;
  readonly #scratch: ExpertsScratch;
  readonly #route: Kernel<typeof ROUTE_BINDINGS>;
  readonly #few: Readonly<Record<ProductName, Kernel<typeof PRODUCT_BINDINGS>>>;
  readonly #many: ReturnType<typeof makeManyKernels>;

  /** @throws {RangeError} when the kernels cannot run the sizes. */
  constructor(gpu: GpuContext, scratch: ExpertsScratch, params: ExpertsParams) {
    checkExperts(params);
    const { elem, experts, topK, logits, router } = params;
    this.#params = params;
    this.#scratch = scratch;
    this.#route = Kernel.get(gpu, {
      name: "route",
      source: ELEM[elem] + routeShader,
      bindings: ROUTE_BINDINGS,
      constants: {
        EXPERTS: experts,
        TOP_K: topK,
        STRIDE: logits.stride,
        OFFSET: logits.offset,
        IS_SIGMOID: router.scores === "sigmoid" ? 1 : 0,
        HAS_BIAS: router.hasBias ? 1 : 0,
        NORMALIZES: router.normalizes ? 1 : 0,
        EPSILON: router.epsilon,
        SCALE: router.scale,
        PREFERS_LAST: router.prefersLast ? 1 : 0,
      },
    });
    this.#few = {
      first: makeProductKernel(gpu, "experts_few", makeFewSource("first", params)),
      second: makeProductKernel(gpu, "experts_few", makeFewSource("second", params)),
    };
    this.#many = makeManyKernels(gpu, params, scratch.maxRows);
  }

  /** Appends the computation for `numRows` rows. */
  encode(
    pass: ComputePass,
    tensors: ExpertsTensors,
    { numRows, isFew }: { readonly numRows: number; readonly isFew: boolean },
  ): void {
    const { routes, counts } = this.#scratch;
    const { logits, routerBias = logits } = tensors;
    this.#route.encode(pass, { logits, bias: routerBias, routes, counts }, [numRows]);
    if (isFew) this.#encodeFew(pass, tensors, numRows);
    else this.#encodeMany(pass, tensors, numRows);
  }

  #encodeFew(pass: ComputePass, { x, first, second, out }: ExpertsTensors, numRows: number): void {
    const { topK, inner, hidden } = this.#params;
    const { routes, hidden: between } = this.#scratch;
    this.#few.first.encode(pass, { ...bind(first, x), x, routes, out: between }, [
      Math.ceil(inner / countOutputsPerGroup("first", this.#params).few),
      numRows * topK,
    ]);
    this.#few.second.encode(pass, { ...bind(second, between), x: between, routes, out }, [
      Math.ceil(hidden / countOutputsPerGroup("second", this.#params).few),
      numRows,
    ]);
  }

  #encodeMany(pass: ComputePass, { x, first, second, out }: ExpertsTensors, numRows: number): void {
    const { inner, hidden } = this.#params;
    const { routes, counts, order, products, hidden: between } = this.#scratch;
    const kernels = this.#many;
    const tiles = countMostTiles(this.#params, numRows);
    kernels.order.encode(pass, { routes, order, counts }, [1]);
    kernels.first.encode(pass, { ...bind(first, x), x, routes: order, out: between }, [
      Math.ceil(inner / countOutputsPerGroup("first", this.#params).many),
      tiles,
    ]);
    kernels.second.encode(
      pass,
      { ...bind(second, between), x: between, routes: order, out: products },
      [Math.ceil(hidden / countOutputsPerGroup("second", this.#params).many), tiles],
    );
    kernels.combine.encode(pass, { products, routes, out }, [
      Math.ceil(hidden / 4 / COMBINE_THREADS),
      numRows,
    ]);
  }
}

/** Every binding needs a buffer; unused ones are not read. */
function bind(
  { weights, scales, zeroPoints, bias }: ExpertBuffers,
  unused: GPUBuffer,
): Record<"weights" | "scales" | "zeroPoints" | "bias", GPUBuffer> {
  return {
    weights,
    scales: scales ?? unused,
    zeroPoints: zeroPoints ?? unused,
    bias: bias ?? unused,
  };
}

/** The kernels for many rows. */
function makeManyKernels(gpu: GpuContext, params: ExpertsParams, maxRows: number) {
  const { elem, experts, topK, hidden } = params;
  return {
    order: Kernel.get(gpu, {
      name: "order_rows",
      source: orderShader,
      bindings: ORDER_BINDINGS,
      constants: { EXPERTS: experts, MOST_TILES: countMostTiles(params, maxRows), TILE_ROWS },
    }),
    first: makeProductKernel(gpu, "experts_many", makeManySource("first", params)),
    second: makeProductKernel(gpu, "experts_many", makeManySource("second", params)),
    combine: Kernel.get(gpu, {
      name: "combine",
      source: FOUR[elem] + combineShader,
      bindings: COMBINE_BINDINGS,
      constants: { FOURS: hidden / 4, TOP_K: topK },
    }),
  };
}

function makeProductKernel(
  gpu: GpuContext,
  name: string,
  source: string,
): Kernel<typeof PRODUCT_BINDINGS> {
  return Kernel.get(gpu, { name, source, bindings: PRODUCT_BINDINGS, constants: {} });
}
