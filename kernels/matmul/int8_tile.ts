/**
 * The WGSL of products of rows in 8 bits with weights of 4 bits, for many rows or a few: a tile of rows and columns for
 * each workgroup, staged in workgroup memory some blocks of 32 elements at a time while the next are on their way.
 *
 * The products of a block are whole numbers, exact; blocks are added one after the other in f32. So a row's result
 * depends neither on the tile nor on the rows beside it. Loops are unrolled, see matvec_unrolled.ts.
 *
 * @module
 */
import { expand } from "../common/expand.ts";
import { BLOCK, type Int8Params, int8Threads, type Int8Tile } from "./int8_shape.ts";
import template from "./int8_tile.wgsl" with { type: "text" };

/** 1.5 · 2^23: a small whole number that is added to its bits is the number's float after the subtraction of the same. */
export const MAGIC = { bits: 0x4b400000, float: "12582912.0" };

/** What follows int8_rows.wgsl, what is made of the sums, and the declarations of the matrix. */
export function int8TileSource(
  { k, gate, weights: { blockSize, hasZeroPoints } }: Int8Params,
  tile: Int8Tile,
): string {
  const { rows, columns, threadRows, threadColumns, depth, isDouble } = tile;
  const threads = int8Threads(tile);
  // What all threads bring to workgroup memory for a stage.
  const [words, factors, chunks] = [2 * depth * rows, depth * rows, depth * columns];
  return expand(template, {
    ROWS: rows,
    COLUMNS: columns,
    THREADS: threads,
    THREAD_ROWS: threadRows,
    THREAD_COLUMNS: threadColumns,
    THREAD_OUTPUTS: gate ? threadColumns / 2 : threadColumns,
    GROUP_OUTPUTS: gate ? columns / 2 : columns,
    ROW_LANES: rows / threadRows,
    COLUMN_LANES: columns / threadColumns,
    DEPTH: depth,
    STAGES: isDouble ? 2 : 1,
    IS_DOUBLE: isDouble,
    IS_GATED: gate !== undefined,
    HAS_ZERO_POINTS: hasZeroPoints,
    BLOCKS_OF_ROW: k / BLOCK,
    BLOCKS_OF_SCALE: blockSize / BLOCK,
    WORDS: words,
    FACTORS: factors,
    CHUNKS: chunks,
    WORD_SLOTS: Math.ceil(words / threads),
    FACTOR_SLOTS: Math.ceil(factors / threads),
    CHUNK_SLOTS: Math.ceil(chunks / threads),
    MAGIC: MAGIC.bits,
    MAGIC_FLOAT: MAGIC.float,
  });
}
