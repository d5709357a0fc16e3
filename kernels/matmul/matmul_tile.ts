/**
 * Generates the WGSL of `matvec` for many rows on graphics cards.
 *
 * @module
 */
import type { MatrixFormat, MatvecParams } from "./matvec_params.ts";
import { TILE } from "./matvec_shape.ts";
import { expand, type Values } from "../common/expand.ts";
import template from "./matmul_tile.wgsl" with { type: "text" };

/** Number of elements of K staged at a time. */
const DEPTH = 32;
/** Number of columns per thread; if outputs are gated, half of them belong to the gate. */
export const TILE_OUTS = 8;
/** Number of groups of four along a tile's side. */
const QUADS = TILE / 4;
/** Number of threads: each stages four rows and four columns, four elements of K deep. */
export const TILE_THREADS = QUADS * DEPTH / 4;
/** Steps of K between two tests of the loop's end. */
const STEPS = 8;

/** Whether a product of many rows can be computed in tiles. */
export function takesTiles({ k, norm, sum, weights }: MatvecParams): boolean {
  const isWhole = weights.kind !== "nbits" || k % weights.blockSize === 0;
  return k % DEPTH === 0 && isWhole && norm?.kind !== "layer" && sum === undefined;
}

/** Number of outputs of a tile. */
export function outputsOfTile({ gate }: MatvecParams): number {
  return gate ? TILE / 2 : TILE;
}

/** The source that must follow matvec_common.wgsl and the declarations of the matrix. */
export function tileSource({ k, weights, norm, gate }: MatvecParams): string {
  return expand(template, {
    TILE,
    DEPTH,
    QUADS,
    STEPS,
    THREADS: TILE_THREADS,
    LANES: TILE / TILE_OUTS,
    K_FOURS: k / 4,
    HAS_NORM: norm !== undefined,
    HAS_OFFSETS: norm?.hasBeta ?? false,
    IS_GATED: gate !== undefined,
    IS_ROWS: weights.kind === "rows",
    IS_COLUMNS: weights.kind === "columns",
    IS_NBITS: weights.kind === "nbits",
    ...weights.kind === "nbits" ? nbitsValues(k, weights) : {},
  });
}

/** Values that describe how quantised weights lie in words. */
function nbitsValues(
  k: number,
  { bits, blockSize, hasZeroPoints }: MatrixFormat & { readonly kind: "nbits" },
): Values {
  const chunkWords = Math.min(4, blockSize * bits / 32);
  return {
    BITS: bits,
    MASK: 2 ** bits - 1,
    HALF: 2 ** (bits - 1),
    IS_BYTES: bits === 8,
    HAS_ZERO_POINTS: hasZeroPoints,
    // Number of vec4s per word, and per block.
    PER_WORD: 8 / bits,
    BLOCK_FOURS: blockSize / 4,
    CHUNK_WORDS: chunkWords,
    CHUNKS: k * bits / 32 / chunkWords,
  };
}
