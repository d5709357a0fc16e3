/**
 * Generates the WGSL of attention for one head size and tiling. Attention with many queries at once follows
 * FlashAttention-2 (Dao, 2023), wherever the keys are stored. Attention with few queries over many keys follows
 * Flash-Decoding (Dao et al., 2023).
 *
 * Inner loops and per-thread arrays are unrolled, because naga adds a counter to each loop and a bounds check to each
 * index, so that drivers neither unroll loops nor keep arrays in registers.
 *
 * @module
 */
import { expand } from "../common/wgsl.ts";
import tileTemplate from "./attention_tile.wgsl" with { type: "text" };
import decodeTemplate from "./paged_attention_decode.wgsl" with { type: "text" };

/**
 * Number of keys whose values a thread adds in one iteration of the loop; it divides the number of keys in any tile.
 */
const KEYS_AT_ONCE = { f32: 4, f16: 8 };
/** Number of vec4s that a thread loads at once. In f16 they take half as many registers. */
const LOADS_AT_ONCE = { f32: 8, f16: 16 };
/**
 * In half precision, queries are scaled down by this factor, so that no sum of a few products overflows. It is a power
 * of two, so scaling is exact.
 */
const HALF_SCALE = 16;

/** The work of one workgroup with many queries. */
export interface TileTiling {
  /** Number of pairs (query token, query head of the group), a multiple of `4 * quads`. */
  readonly rows: number;
  /** Groups of four rows that a thread computes. */
  readonly quads: number;
  /** Number of threads that share the same rows. */
  readonly threadsPerRow: number;
  /**
   * Keys per tile, divided by `threadsPerRow`. This number and `threadsPerRow` are powers of two, and their product,
   * the keys per tile, is at least 4.
   */
  readonly keysPerThread: number;
  /** Whether workgroup memory holds keys and values in f32, whatever the type of the tensors. */
  readonly isUnpacked: boolean;
  /**
   * Whether products are computed in f16. Up to eight products are added in f16, and these sums in f32. `four` must
   * then be an f16 vector, and a tile must have at least eight keys.
   */
  readonly isHalf?: boolean;
}

/**
 * Declares `attend_tile(item, kv_head, thread)`, to be run by {@linkcode tileThreads} threads with
 * {@linkcode tileBytes} bytes of workgroup memory.
 */
export function tileSource(headFours: number, tiling: TileTiling): string {
  const { rows, quads, threadsPerRow, keysPerThread, isUnpacked, isHalf = false } = tiling;
  const threads = tileThreads(tiling);
  const keys = threadsPerRow * keysPerThread;
  const precision = isHalf ? "f16" : "f32";
  const perThread = Math.ceil(keys * headFours / threads);
  const loads = Math.min(LOADS_AT_ONCE[precision], perThread);
  return expand(tileTemplate, {
    ROWS: rows,
    QUADS: quads,
    THREAD_ROWS: 4 * quads,
    BLOCKS: rows / (4 * quads),
    THREADS: threads,
    LANES: threadsPerRow,
    FOURS: headFours,
    STRIDE: headFours + 1,
    COLUMNS: Math.ceil(headFours / threadsPerRow),
    COLUMNS_AT_ONCE: headFours % 2 === 0 ? 2 : 1,
    KEYS: keys,
    KEYS_PER_THREAD: keysPerThread,
    KEYS_AT_ONCE: KEYS_AT_ONCE[precision],
    IS_HALF: isHalf,
    HALF_SCALE,
    VECTOR: `vec4<${precision}>`,
    STAGED: isUnpacked ? "vec4<f32>" : "four",
    // Functions that convert values read from workgroup memory and written to it.
    READ: isUnpacked || isHalf ? "" : "unpack",
    READ_QUERY: isHalf ? "" : "unpack",
    UNPACK: isUnpacked ? "unpack" : "",
    LOADS: loads,
    KEEPS_LOADS: perThread <= LOADS_AT_ONCE[precision],
    HAS_REST: keys * headFours % (loads * threads) !== 0,
  });
}

/** Number of threads in a workgroup of a tile. */
export function tileThreads({ rows, quads, threadsPerRow }: TileTiling): number {
  return rows / (4 * quads) * threadsPerRow;
}

/** Bytes of workgroup memory of a tile, if a vec4 takes `fourBytes`. */
export function tileBytes(headFours: number, fourBytes: number, tiling: TileTiling): number {
  const { rows, quads, isUnpacked, isHalf } = tiling;
  const keys = tiling.threadsPerRow * tiling.keysPerThread;
  const kvBytes = keys * (headFours + 1) * (isUnpacked ? 16 : fourBytes);
  const weightBytes = keys * rows * (isHalf ? 2 : 4);
  return rows * headFours * fourBytes + kvBytes + weightBytes + 16 * quads * tileThreads(tiling);
}

/** Number of vec4s of keys that a thread loads at once. */
const DECODE_LOADS = 8;
/** The outputs that are combined at a time take at most this many bytes, or are a single row. */
const JOINED_BYTES = 8192;

/** The work of one workgroup with few queries. All fields but `rows` are powers of two. */
export interface DecodeTiling {
  /** Number of pairs (query token, query head of the group), 1 to 8. */
  readonly rows: number;
  readonly threads: number;
  /** Number of threads that share a key; divides the vec4s of a head. */
  readonly threadsPerKey: number;
  readonly keysPerThread: number;
  /** Number of threads that share a value; divides `threads`. */
  readonly threadsPerValue: number;
  /**
   * Whether queries are rounded to two integers of 8 bits (16 bits together) when keys are in 8 bits, for devices with
   * instructions for integer dot products.
   */
  readonly roundsQueries?: boolean | undefined;
}

/**
 * The declarations and the entry point of `paged_attention_decode`. With the tilings of attention_shape.ts, the kernel
 * takes less than 16 KiB of workgroup memory.
 */
export function decodeSource(
  headFours: number,
  tiling: DecodeTiling,
  isQuantized: boolean,
): string {
  const { rows, threads, threadsPerKey, keysPerThread, threadsPerValue } = tiling;
  const keys = decodeKeys(tiling);
  const groups = threads / threadsPerValue;
  const keyFours = headFours / threadsPerKey;
  const columns = Math.ceil(headFours / threadsPerValue);
  const atOnce = Math.min(keyFours, Math.max(1, Math.floor(DECODE_LOADS / keysPerThread)));
  const left = keyFours % atOnce;
  const rowsAtOnce = joinedRows(tiling, columns);
  return expand(decodeTemplate, {
    ROWS: rows,
    THREADS: threads,
    FOURS: headFours,
    COLUMNS: columns,
    KEYS: keys,
    KEYS_PER_THREAD: keysPerThread,
    KEY_SLOTS: threads / threadsPerKey,
    // Numbers of threads that share a key, and that share a value.
    LANES: threadsPerKey,
    VALUE_LANES: threadsPerValue,
    GROUPS: groups,
    GROUP_KEYS: keys / groups,
    FOURS_AT_ONCE: atOnce,
    FOURS_LEFT: left,
    WHOLE_FOURS: keyFours - left,
    LOOPS: keyFours - left > atOnce,
    EXPONENTS: Math.ceil(rows * keys / threads),
    ROWS_AT_ONCE: rowsAtOnce,
    PASSES: Math.ceil(rows / rowsAtOnce),
    SCRATCH: scratchFloats(tiling, columns),
    IS_QUANTIZED: isQuantized,
    IS_ROUNDED: isQuantized && tiling.roundsQueries === true,
    IS_SPLIT: threadsPerKey > 1,
  });
}

/** Number of keys in a tile of the decode kernel. */
export function decodeKeys({ threads, threadsPerKey, keysPerThread }: DecodeTiling): number {
  return threads / threadsPerKey * keysPerThread;
}

function joinedRows({ rows, threads }: DecodeTiling, columns: number): number {
  return Math.min(rows, Math.max(1, Math.floor(JOINED_BYTES / (16 * threads * columns))));
}

function scratchFloats(tiling: DecodeTiling, columns: number): number {
  const { rows, threads, threadsPerKey, keysPerThread } = tiling;
  const parts = threadsPerKey > 1 ? rows * threads * keysPerThread : 0;
  return Math.max(parts, joinedRows(tiling, columns) * columns * 4 * threads);
}
