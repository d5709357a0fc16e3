/**
 * Lays out mixtures of experts in the linear memory of their kernels: the weights as stored in the file, and the
 * memory that layers share.
 *
 * @module
 */
import { ACTIVATIONS } from "../common/activation.ts";
import type { Arena, ReadBytes } from "../cpu/arena.ts";
import {
  checkExperts,
  countFirstOutputs,
  type ExpertActivation,
  type ExpertProduct,
  type ExpertsParams,
  findGateRows,
} from "./experts_params.ts";

/** Numbers of the kinds in `wasm/product_layout.ts`. */
const KINDS = { bits4: 0, bits8: 1, floats: 2, halves: 3 };
const NODE_WORDS = 21;
export const STEP_WORDS = 2;
/** Number of elements of a row that are rounded together, and the bytes that the result takes. */
const CHUNK = 32;
const CHUNK_BYTES = 96;
/**
 * Number of outputs in a part of the work: few enough that no thread waits long for another, and that the weights fit
 * into the L2 cache.
 */
export const PART_OUTPUTS = 64;
/** Pairs that are multiplied with a row of a matrix at a time. */
const TILE = 4;
/** Rows that are computed at a time. */
export const MAX_ROWS = 128;
const NO_ACTIVATION: ExpertActivation = { kind: "none", alpha: 1 };

/** One of a layer's two matrices, for all experts. */
export interface ExpertSource {
  /** u8 levels `[experts, outputs, k * bits / 8]`, or floating-point elements. */
  readonly weights: ReadBytes;
  /** Whether weights that are not quantised are f16. */
  readonly isHalf?: boolean;
  /** `[experts, outputs, k / blockSize]`. */
  readonly scales?: Float32Array | undefined;
  /** u8 `[experts, outputs, ceil(k / blockSize * bits / 8)]`. */
  readonly zeroPoints?: Uint8Array | undefined;
  readonly bias?: Float32Array | undefined;
}

/** A layer's parameters, and the sources of its weights. */
export interface ExpertLayer {
  readonly params: ExpertsParams;
  readonly routerBias?: Float32Array | undefined;
  readonly first: ExpertSource;
  readonly second: ExpertSource;
}

/** One of a layer's two products, with its weights in memory. */
interface PlacedProduct {
  /** Address and bytes of the weights. */
  readonly weights: { readonly at: number; readonly bytes: number };
  /** The words of `ExpertsProduct`. */
  readonly words: Uint32Array;
}

/** A layer with its addresses. */
export interface PlacedLayer extends Omit<ExpertLayer, "first" | "second"> {
  readonly first: PlacedProduct;
  readonly second: PlacedProduct;
}

/** Addresses of memory that layers share. */
export interface Scratch {
  readonly node: number;
  readonly step: number;
  readonly items: number;
  readonly pairs: number;
  /** One row as f32, and the rows in the format in which they are multiplied. */
  readonly row: number;
  readonly rows: number;
  readonly hidden: number;
  readonly hiddenRows: number;
  readonly products: number;
  readonly perThread: number;
  readonly perThreadBytes: number;
}

/** The sizes of a product. */
interface ProductShape {
  readonly k: number;
  /** Rows of an expert's matrix. */
  readonly outputs: number;
  /** Elements of a result: half the number of rows if the product is gated. */
  readonly count: number;
  /** Positions of the gate's rows: see {@linkcode findGateRows}. */
  readonly rows: ReturnType<typeof findGateRows>;
  readonly activation: ExpertActivation;
}

function listShapes(params: ExpertsParams): Readonly<Record<"first" | "second", ProductShape>> {
  const { hidden, inner, activation } = params;
  const outputs = countFirstOutputs(params);
  const rows = findGateRows(params);
  return {
    first: { k: hidden, outputs, count: inner, rows, activation },
    second: {
      ...{ k: inner, outputs: hidden, count: hidden },
      ...{ rows: { step: 1, gate: 0, up: 0 }, activation: NO_ACTIVATION },
    },
  };
}

function weightBytes({ matrix }: ExpertProduct, { isHalf }: ExpertSource, length: number): number {
  return length * (matrix.kind === "nbits" ? matrix.bits / 8 : isHalf ? 2 : 4);
}

/** Bytes that a layer's weights take in memory. */
export function countLayerBytes({ params, ...sources }: ExpertLayer): number {
  const shapes = listShapes(params);
  const sizes = (["first", "second"] as const).map((name) => {
    const { k, outputs } = shapes[name];
    const rows = params.experts * outputs;
    const { matrix } = params[name];
    const scaleBytes = matrix.kind === "rows"
      ? 0
      : k / Math.min(CHUNK, matrix.blockSize) * (matrix.hasZeroPoints ? 5 : 4);
    return weightBytes(params[name], sources[name], rows * k) + rows * scaleBytes;
  });
  return sizes[0]! + sizes[1]!;
}

/** The factor of a quantised row's sum: minus the zero point, or -1 if blocks have zero points of their own. */
export function factorAt({ matrix }: ExpertProduct): number {
  if (matrix.kind === "rows") return 0;
  return matrix.hasZeroPoints ? -1 : -(2 ** (matrix.bits - 1));
}

/** Bytes of a row of `k` elements in the format that a product reads. */
export function rowBytes({ matrix }: ExpertProduct, k: number): number {
  return matrix.kind === "rows" ? k * 4 : k / CHUNK * CHUNK_BYTES;
}

/** Reserves the memory that layers share, since they run one after the other. */
export function reserveScratch(
  arena: Arena,
  all: readonly ExpertsParams[],
  numThreads: number,
): Scratch {
  const most = (computeSize: (params: ExpertsParams) => number) =>
    Math.max(...all.map(computeSize));
  const pairs = most(({ topK }) => topK) * MAX_ROWS;
  const bytes = (count: number) => arena.reserve(Math.ceil(count / 4));
  // Sums for a tile, of the gate's rows and of the rows that the gate multiplies.
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

/**
 * Reserves a layer's memory, into which its weights are read later.
 *
 * @throws {RangeError} when the kernel cannot run the layer.
 */
export function placeLayer(arena: Arena, layer: ExpertLayer, scratch: Scratch): PlacedLayer {
  const { params, routerBias, ...sources } = layer;
  checkExperts(params);
  const { rows, hiddenRows, hidden: between, products } = scratch;
  const isRounded = params.second.matrix.kind === "nbits";
  const shapes = listShapes(params);
  const place = (name: "first" | "second", x: number, out: number): PlacedProduct => {
    const [product, source, shape] = [params[name], sources[name], shapes[name]];
    const numRows = params.experts * shape.outputs;
    const bytes = weightBytes(product, source, numRows * shape.k);
    const weights = { at: arena.reserve(bytes / 4), bytes };
    const constants = placeConstants(arena, product, source, { numRows, k: shape.k });
    const words = listProductWords(product, source, shape, {
      ...constants,
      weights: weights.at,
      x,
      out,
    });
    return { weights, words };
  };
  return {
    ...{ params, routerBias },
    first: place("first", rows, between),
    second: place("second", isRounded ? hiddenRows : between, products),
  };
}

/** Addresses of a product's operands; 0 for operands that it does not have. */
type Operands = Readonly<
  Record<"weights" | "scales" | "zeros" | "bias" | "x" | "out", number>
>;

/** The words of `ExpertsProduct`, in its order. */
function listProductWords(
  product: ExpertProduct,
  { isHalf }: ExpertSource,
  { k, outputs, count, rows, activation: { kind, alpha, gate } }: ProductShape,
  at: Operands,
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
    ...[stored, k, hasHalves ? 1 : 0, outputs, count],
    ...[rows.step, rows.gate, rows.up, gate ? 1 : 0, PART_OUTPUTS],
    ...[at.weights, at.scales, at.zeros, at.bias, ACTIVATIONS.indexOf(kind)],
    ...new Uint32Array(Float32Array.of(alpha, beta, limit).buffer),
    ...[at.x, rowBytes(product, k), at.out],
  );
}

function placeConstants(
  arena: Arena,
  { matrix }: ExpertProduct,
  { scales, zeroPoints, bias }: ExpertSource,
  { numRows, k }: { readonly numRows: number; readonly k: number },
): Pick<Operands, "scales" | "zeros" | "bias"> {
  const biasAt = bias ? arena.place(bias) : 0;
  if (matrix.kind === "rows") return { scales: 0, zeros: 0, bias: biasAt };
  const { bits, blockSize } = matrix;
  const [blocks, copies] = [k / blockSize, Math.max(1, blockSize / CHUNK)];
  const zeros = zeroPoints && spreadZeroPoints(zeroPoints, { bits, rows: numRows, blocks, copies });
  return {
    scales: scales ? arena.place(spreadScales(scales, copies)) : 0,
    zeros: zeros ? arena.place(zeros) : 0,
    bias: biasAt,
  };
}

/** Repeats the scale of a block for each of its chunks. */
function spreadScales(scales: Float32Array, copies: number): Float32Array {
  if (copies === 1) return scales;
  return new Float32Array(scales.length * copies).map((_, i) => scales[Math.floor(i / copies)]!);
}

/** Repeats the zero point of a block for each of its chunks, as words. */
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
