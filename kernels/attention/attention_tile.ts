/**
 * WGSL of attention for many queries at once, after FlashAttention-2 (Dao, 2023), wherever the keys are.
 *
 * Written for a head size and a tiling, with every inner loop and array of a thread unrolled: naga guards each loop
 * with a counter and each index with a bound, so that drivers neither unroll loops nor keep arrays in registers.
 *
 * @module
 */
import { expand } from "../common/expand.ts";
import template from "./attention_tile.wgsl" with { type: "text" };

/** Keys whose values a thread adds in one iteration of the loop; it divides the keys of any tile. */
const KEYS_AT_ONCE = { f32: 4, f16: 8 };
/** Fours that a thread loads at once; halves take half of the registers. */
const LOADS_AT_ONCE = { f32: 8, f16: 16 };
/** Queries are this much smaller in half precision, so that no sum of a few products overflows. A power of two: exact. */
const HALF_SCALE = 16;

/** The work of one workgroup. */
export interface TileTiling {
  /** Pairs (query token, query head of the group), a multiple of `4 * quads`. */
  readonly rows: number;
  /** Fours of rows that a thread serves. */
  readonly quads: number;
  /** Threads that serve the same rows. */
  readonly threadsPerRow: number;
  /** Keys of a tile, over `threadsPerRow`. Both are powers of two, and their product is 4 or more. */
  readonly keysPerThread: number;
  /** Whether keys and values lie in workgroup memory in f32, whatever the tensors are. */
  readonly isUnpacked: boolean;
  /**
   * Whether products are f16, added in f16 for eight elements or keys and then in f32: `four` must be a vector of f16, and
   * keys of a tile eight or more.
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
  return expand(template, {
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
    // What is read of workgroup memory, and what is written there.
    READ: isUnpacked || isHalf ? "" : "unpack",
    READ_QUERY: isHalf ? "" : "unpack",
    UNPACK: isUnpacked ? "unpack" : "",
    LOADS: loads,
    KEEPS_LOADS: perThread <= LOADS_AT_ONCE[precision],
    HAS_REST: keys * headFours % (loads * threads) !== 0,
  });
}

/** Threads of a workgroup. */
export function tileThreads({ rows, quads, threadsPerRow }: TileTiling): number {
  return rows / (4 * quads) * threadsPerRow;
}

/** Bytes of workgroup memory, of fours of the given bytes. */
export function tileBytes(headFours: number, fourBytes: number, tiling: TileTiling): number {
  const { rows, quads, isUnpacked, isHalf } = tiling;
  const keys = tiling.threadsPerRow * tiling.keysPerThread;
  const kvBytes = keys * (headFours + 1) * (isUnpacked ? 16 : fourBytes);
  const weightBytes = keys * rows * (isHalf ? 2 : 4);
  return rows * headFours * fourBytes + kvBytes + weightBytes + 16 * quads * tileThreads(tiling);
}
