/**
 * The division of work for integer products, and the WGSL that is generated for it.
 *
 * The divisions were the fastest in a search on an H100 (README.md lists what was tried). The products of a block are
 * exact whole numbers, and blocks are added one after the other in f32. So a row's result depends neither on how the
 * work is divided nor on the other rows. Loops are unrolled; see matvec_source.ts.
 *
 * @module
 */
import type { GpuContext } from "../../src/gpu/device.ts";
import type { MatvecParams } from "./matvec_params.ts";
import { expand } from "../common/wgsl.ts";
import rowTemplate from "./int8_row.wgsl" with { type: "text" };
import tileTemplate from "./int8_tile.wgsl" with { type: "text" };

/** Parameters of an integer product. */
export type Int8Params = MatvecParams & { readonly weights: { readonly kind: "nbits" } };

/** Number of elements of a row that share a scale. */
export const BLOCK = 32;

/** The division of a tile of rows and columns among the threads of a workgroup. */
export interface Int8Tile {
  readonly rows: number;
  readonly columns: number;
  /** Number of rows per thread. */
  readonly threadRows: number;
  readonly threadColumns: number;
  /** Number of blocks staged at a time; it divides the number of blocks in a row. */
  readonly depth: number;
  /** Whether memory holds two stages, so that threads wait for each other only once per stage. */
  readonly isDouble: boolean;
}

/** Tiles, each with the largest number of rows that it is for. */
const TILES: readonly { readonly upTo: number; readonly tile: Int8Tile }[] = [
  {
    upTo: 8,
    tile: { rows: 8, columns: 16, threadRows: 2, threadColumns: 1, depth: 8, isDouble: false },
  },
  {
    upTo: 32,
    tile: { rows: 32, columns: 16, threadRows: 4, threadColumns: 1, depth: 8, isDouble: false },
  },
  {
    upTo: 128,
    tile: { rows: 32, columns: 32, threadRows: 4, threadColumns: 2, depth: 4, isDouble: true },
  },
  {
    upTo: Infinity,
    tile: { rows: 64, columns: 64, threadRows: 8, threadColumns: 4, depth: 2, isDouble: true },
  },
];

/** The smallest number of rows for each tile. */
export function listFirstRows(): number[] {
  return [1, ...TILES.slice(0, -1).map(({ upTo }) => upTo + 1)];
}

/** The tile for a number of rows, whose stages divide a row and fit the device. */
export function chooseInt8Tile(
  { limits }: Pick<GpuContext, "limits">,
  { k, gate }: Pick<MatvecParams, "k" | "gate">,
  numRows: number,
): Int8Tile {
  const { tile } = TILES.find(({ upTo }) => numRows <= upTo)!;
  const { columns, threadColumns } = tile;
  // A thread has a column of the gate for each column that the gate multiplies.
  const times = gate && threadColumns === 1 ? 2 : 1;
  const wide = { ...tile, columns: times * columns, threadColumns: times * threadColumns };
  const depths = [8, 4, 2, 1].filter((depth) => depth <= tile.depth && k / BLOCK % depth === 0);
  const stages = depths.flatMap((depth) =>
    [tile.isDouble, false].map((isDouble) => ({ ...wide, depth, isDouble }))
  );
  return stages.find((each) => countInt8TileBytes(each) <= limits.maxComputeWorkgroupStorageSize)!;
}

/** Threads of a workgroup. */
function countInt8Threads({ rows, columns, threadRows, threadColumns }: Int8Tile): number {
  return rows / threadRows * columns / threadColumns;
}

/** Bytes of workgroup memory. */
export function countInt8TileBytes(tile: Int8Tile): number {
  const { rows, columns, threadRows, threadColumns, depth, isDouble } = tile;
  const [rowLanes, columnLanes] = [rows / threadRows, columns / threadColumns];
  const fours = rowLanes * (2 * threadRows * depth + 1) +
    columnLanes * (2 * threadColumns * depth + 1);
  const pairs = rowLanes * (threadRows * depth + 1) + columnLanes * (threadColumns * depth + 1);
  return (isDouble ? 2 : 1) * (16 * fours + 8 * pairs);
}

/** The division of one row's outputs among workgroups. */
export interface Int8Row {
  /** Number of outputs of a workgroup. */
  readonly outs: number;
  readonly threads: number;
  /** Number of blocks processed at a time; it divides the number of blocks in a row. */
  readonly blocks: number;
}

/** Maximum number of blocks processed at a time, so that they fit into the workgroup memory that all devices have. */
const MOST_BLOCKS = 96;
const ROW_OUTS = 16;
const ROW_THREADS = [256, 224, 192, 160, 128];
/**
 * A row's squares are added in 32 parts; units of eight elements go to these parts in turn. So a stage must be a
 * multiple of 32 units, which are this many blocks, unless there is only one stage.
 */
const ROUND = 8;

/**
 * Chooses the division of the product of one row; `undefined` for a few lengths of normalised rows that cannot be
 * divided.
 */
export function chooseInt8Row({ k, norm }: Pick<MatvecParams, "k" | "norm">): Int8Row | undefined {
  const all = k / BLOCK;
  const blocks = Array.from({ length: Math.min(all, MOST_BLOCKS) }, (_, i) => i + 1)
    .findLast((count) => all % count === 0 && (!norm || count === all || count % ROUND === 0));
  if (blocks === undefined) return undefined;
  const threads = ROW_THREADS.find((count) => ROW_OUTS * blocks % count === 0) ?? ROW_THREADS[0]!;
  return { outs: ROW_OUTS, threads, blocks };
}

/**
 * 1.5 · 2^23: adding a small whole number to these bits and then subtracting the float converts the number to a float.
 */
const MAGIC = { bits: 0x4b400000, float: "12582912.0" };

/** Number of parts in which the squares of a row are added; the same as in int8_rows.wgsl. */
const GATHERERS = 32;
/** Possible numbers of blocks that one iteration adds to an output's sum, the best first. */
const STEPS = [8, 4, 2, 1];

/**
 * The kernel for several rows: each workgroup takes a tile of rows and columns, and stages some blocks of 32 elements
 * in workgroup memory while the next ones are being loaded. The WGSL must follow int8_rows.wgsl and matrix.wgsl.
 */
export function makeInt8TileSource(
  { k, gate, weights: { blockSize, hasZeroPoints } }: Int8Params,
  tile: Int8Tile,
): string {
  const { rows, columns, threadRows, threadColumns, depth, isDouble } = tile;
  const threads = countInt8Threads(tile);
  // Numbers of elements that all threads together load into workgroup memory for a stage.
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
 * The kernel for a single row. The WGSL must follow rows.wgsl, int8_rows.wgsl and matrix.wgsl.
 */
export function makeInt8RowSource(
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
