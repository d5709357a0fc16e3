/**
 * The WGSL of products of one row in 8 bits with weights of 4 bits.
 *
 * Products of blocks are kept, and added in their order: results are those of int8_tile.ts, to the bit.
 *
 * @module
 */
import { expand } from "../common/expand.ts";
import template from "./int8_row.wgsl" with { type: "text" };
import { BLOCK, type Int8Params, type Int8Row } from "./int8_shape.ts";
import { MAGIC } from "./int8_tile.ts";

/** Parts in which the squares of a row are added, as quantize_rows.wgsl adds them. */
const GATHERERS = 32;
/** Blocks between two tests of the end of the sum over all. */
const STEPS = [8, 4, 2, 1];

/** What follows rows.wgsl, int8_rows.wgsl, what is made of the sums, and the declarations of the matrix. */
export function int8RowSource(
  { k, gate, norm, weights: { blockSize, hasZeroPoints } }: Int8Params,
  { outs, threads, blocks }: Int8Row,
): string {
  // Blocks of outputs, and units of eight elements of the row.
  const [items, units] = [outs * blocks, 4 * blocks];
  return expand(template, {
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
