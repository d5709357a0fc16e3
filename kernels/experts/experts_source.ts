/**
 * Generates the WGSL of both products of experts, for few rows and for many. Loops are unrolled, since Deno's WebGPU
 * does not unroll them.
 *
 * @module
 */
import type { Elem } from "../../src/gpu/kernel.ts";
import { ACTIVATIONS } from "../common/activation.ts";
import { ELEM, expand, type Values } from "../common/wgsl.ts";
import activationSource from "../common/activation.wgsl" with { type: "text" };
import commonTemplate from "./experts_common.wgsl" with { type: "text" };
import fewTemplate from "./experts_few.wgsl" with { type: "text" };
import manyTemplate from "./experts_many.wgsl" with { type: "text" };
import {
  countFirstOutputs,
  DEPTH,
  type ExpertActivation,
  type ExpertProduct,
  type ExpertsParams,
  findGateRows,
} from "./experts_params.ts";

/**
 * For few rows: number of threads in a unit, which divide a sum along K; number of matrix rows that a unit computes;
 * and number of units in a workgroup.
 */
const [LANES, ROWS, UNITS] = [32, 4, 4];
/** For many rows: number of rows in a tile. */
export const TILE_ROWS = 32;
/** Number of a matrix's rows that a tile is multiplied with. */
const COLUMNS = 64;
/** Words before the tiles' experts: the number of tiles, and the offset of their pairs. */
const ORDER_HEADER = 2;

/** One of an expert's two products. */
export type ProductName = "first" | "second";

/** Number of outputs that a workgroup computes, for few rows and for many. */
export function countOutputsPerGroup(
  name: ProductName,
  { activation: { gate } }: ExpertsParams,
): { readonly few: number; readonly many: number } {
  const rowsPerOutput = name === "first" && gate ? 2 : 1;
  return { few: UNITS * ROWS / rowsPerOutput, many: COLUMNS / rowsPerOutput };
}

/** Maximum number of tiles for this many rows. */
export function countMostTiles({ topK, experts }: ExpertsParams, numRows: number): number {
  const pairs = numRows * topK;
  return Math.ceil(pairs / TILE_ROWS) + Math.min(experts, pairs);
}

/** Number of words that the list of the pairs by expert takes for this many rows. */
export function orderWords(params: ExpertsParams, maxRows: number): number {
  return ORDER_HEADER + countMostTiles(params, maxRows) * (1 + TILE_ROWS);
}

/** WGSL that multiplies each row with its own experts' matrices. */
export function makeFewSource(name: ProductName, params: ExpertsParams): string {
  const { few } = countOutputsPerGroup(name, params);
  return write(fewTemplate, name, params, {
    ...{ IS_FEW: true, LANES, ROWS, UNITS },
    UNIT_OUTPUTS: few / UNITS,
    CHUNK: countChunkWeights(params[name]),
    OUT: name === "first" ? "f32" : "elem",
  });
}

/** WGSL that multiplies the rows of each expert with its matrices. */
export function makeManySource(name: ProductName, params: ExpertsParams): string {
  return write(manyTemplate, name, params, {
    ...{ IS_FEW: false, TILE_ROWS, COLUMNS, DEPTH, ORDER_HEADER },
    THREADS: TILE_ROWS * COLUMNS / 32,
    TILE_OUTPUTS: countOutputsPerGroup(name, params).many,
    HALF: COLUMNS / 8,
  });
}

function write(template: string, name: ProductName, params: ExpertsParams, own: Values): string {
  const { elem, topK, hidden, inner, x, activation } = params;
  const isFirst = name === "first";
  const rows = isFirst
    ? { ...findGateRows(params), outputs: inner, matrixRows: countFirstOutputs(params) }
    : { step: 1, gate: 0, up: 0, outputs: hidden, matrixRows: hidden };
  const k = isFirst ? hidden : inner;
  const values = {
    ...own,
    ...listMatrixValues(params[name], {
      elem,
      rows: isFirst ? elem : "f32",
      k,
      isFew: !!own["IS_FEW"],
    }),
    ...listActivationValues(activation),
    IS_FIRST: isFirst,
    IS_GATED: isFirst && activation.gate !== undefined,
    MATRIX_ROWS: rows.matrixRows,
    OUTPUTS: rows.outputs,
    STEP: rows.step,
    GATE: rows.gate,
    UP: rows.up,
    TOP_K: topK,
    // The first product reads the rows of the step; the second reads one row for each pair (row, one of its experts).
    PER_ROW: isFirst ? topK : 1,
    X_STRIDE: (isFirst ? x.stride : inner) / 4,
    X_OFFSET: isFirst ? x.offset / 4 : 0,
  };
  return [
    ELEM[elem],
    isFirst ? activationSource : "",
    ...[commonTemplate, template].map((each) => expand(each, values)),
  ].join("");
}

/** Number of weights along K that a thread reads at a time when there are few rows. */
function countChunkWeights({ matrix }: ExpertProduct): number {
  if (matrix.kind === "rows") return 8;
  return matrix.bits === 4 && matrix.blockSize % 32 === 0 ? 32 : 16;
}

/** The type of four neighbouring elements. */
const FOURS = { f32: "vec4<f32>", f16: "vec2<u32>" } as const;

function listMatrixValues(
  product: ExpertProduct,
  { elem, rows, k, isFew }: {
    readonly elem: Elem;
    readonly rows: Elem;
    readonly k: number;
    readonly isFew: boolean;
  },
): Values {
  const { matrix, hasBias } = product;
  const shared = { K: k, XS: FOURS[rows], HAS_HALF_ROWS: rows === "f16", HAS_BIAS: hasBias };
  if (matrix.kind === "rows") {
    return { ...shared, IS_PLAIN: true, WEIGHTS: FOURS[elem], HAS_HALF_WEIGHTS: elem === "f16" };
  }
  const { bits, blockSize, hasZeroPoints } = matrix;
  return {
    ...shared,
    IS_PLAIN: false,
    WEIGHTS: isFew ? `vec${countChunkWeights(product) * bits / 32}<u32>` : "u32",
    BITS: bits,
    IS_NIBBLES: bits === 4,
    LEVELS: 2 ** bits,
    BLOCK: blockSize,
    HAS_ZERO_POINTS: hasZeroPoints,
    ZERO_BYTES: Math.ceil(k / blockSize * bits / 8),
  };
}

function listActivationValues({ kind, alpha, gate }: ExpertActivation): Values {
  const isBounded = gate !== undefined && Number.isFinite(gate.limit);
  return {
    IS_SILU: kind === "silu",
    ACTIVATION: ACTIVATIONS.indexOf(kind),
    ALPHA: `f32(${alpha})`,
    IS_BOUNDED: isBounded,
    LIMIT: `f32(${gate?.limit})`,
    BETA: `f32(${gate?.beta})`,
  };
}
