/**
 * Generates the WGSL for products of rows in 8 bits with weights of 4 bits.
 *
 * The products of a block are exact whole numbers, and blocks are added one after the other in f32. So a row's result
 * depends neither on how the work is divided nor on the other rows. Loops are unrolled; see matvec_unrolled.ts.
 *
 * @module
 */
import { expand } from "../common/expand.ts";
import rowTemplate from "./int8_row.wgsl" with { type: "text" };
import { BLOCK, type Int8Params, type Int8Row, int8Threads, type Int8Tile } from "./int8_shape.ts";
import tileTemplate from "./int8_tile.wgsl" with { type: "text" };

/**
 * 1.5 · 2^23: adding a small whole number to these bits and then subtracting the float converts the number to a float.
 */
const MAGIC = { bits: 0x4b400000, float: "12582912.0" };

/** Number of parts in which the squares of a row are added; the same as in quantize_rows.wgsl. */
const GATHERERS = 32;
/** Number of blocks between two tests of the end of a sum. */
const STEPS = [8, 4, 2, 1];

/**
 * The kernel for several rows: each workgroup takes a tile of rows and columns, and stages some blocks of 32 elements
 * in workgroup memory while the next ones are being loaded. It must follow int8_rows.wgsl, finish.wgsl, and the
 * declarations of the matrix.
 */
export function int8TileSource(
  { k, gate, weights: { blockSize, hasZeroPoints } }: Int8Params,
  tile: Int8Tile,
): string {
  const { rows, columns, threadRows, threadColumns, depth, isDouble } = tile;
  const threads = int8Threads(tile);
  // What all threads together load into workgroup memory for a stage.
  const [words, factors, chunks] = [2 * depth * rows, depth * rows, depth * columns];
  return expand(tileTemplate, {
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

/**
 * The kernel for a single row. It must follow rows.wgsl, int8_rows.wgsl, finish.wgsl, and the declarations of the
 * matrix.
 */
export function int8RowSource(
  { k, gate, norm, weights: { blockSize, hasZeroPoints } }: Int8Params,
  { outs, threads, blocks }: Int8Row,
): string {
  // Number of blocks of outputs, and of units of eight elements of the row.
  const [items, units] = [outs * blocks, 4 * blocks];
  return expand(rowTemplate, {
    OUTS: outs,
    GROUP_OUTPUTS: gate ? outs / 2 : outs,
    THREADS: threads,
    BLOCKS: blocks,
    BLOCKS_OF_ROW: k / BLOCK,
    BLOCKS_OF_SCALE: blockSize / BLOCK,
    ITEMS: items,
    UNITS: units,
    ITEM_SLOTS: Math.ceil(items / threads),
    UNIT_SLOTS: Math.ceil(units / threads),
    GATHERERS,
    STEP: STEPS.find((count) => blocks % count === 0)!,
    IS_GATED: gate !== undefined,
    HAS_NORM: norm !== undefined,
    HAS_ZERO_POINTS: hasZeroPoints,
    MAGIC: MAGIC.bits,
    MAGIC_FLOAT: MAGIC.float,
  });
}
