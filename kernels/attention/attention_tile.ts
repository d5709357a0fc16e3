/**
 * Generates WGSL for attention with many queries at once, after FlashAttention-2 (Dao, 2023), independent of where the
 * keys are stored.
 *
 * It is generated for one head size and tiling, with all inner loops and per-thread arrays unrolled. The reason is that
 * naga adds a counter to each loop and a bounds check to each index, so drivers neither unroll loops nor keep arrays in
 * registers.
 *
 * @module
 */
import { expand } from "../common/expand.ts";
import template from "./attention_tile.wgsl" with { type: "text" };

/** Keys whose values a thread adds in one iteration of the loop; it divides the keys of any tile. */
const KEYS_AT_ONCE = { f32: 4, f16: 8 };
/** Number of vec4s that a thread loads at once. In f16 they take half the registers. */
const LOADS_AT_ONCE = { f32: 8, f16: 16 };
/**
 * In half precision, queries are scaled down by this factor, so that no sum of a few products overflows. It is a power
 * of two, so scaling is exact.
 */
const HALF_SCALE = 16;

/** The work of one workgroup. */
export interface TileTiling {
  /** Pairs (query token, query head of the group), a multiple of `4 * quads`. */
  readonly rows: number;
  /** Groups of four rows that a thread computes. */
  readonly quads: number;
  /** Number of threads that share the same rows. */
  readonly threadsPerRow: number;
  /** Keys per tile, divided by `threadsPerRow`. Both are powers of two, and their product is at least 4. */
  readonly keysPerThread: number;
  /** Whether workgroup memory holds keys and values in f32, whatever the type of the tensors. */
  readonly isUnpacked: boolean;
  /**
   * Whether products are computed in f16: eight elements or keys are added in f16, and the results in f32. `four` must
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
    // How values are converted when they are read from workgroup memory and written to it.
    READ: isUnpacked || isHalf ? "" : "unpack",
    READ_QUERY: isHalf ? "" : "unpack",
    UNPACK: isUnpacked ? "unpack" : "",
    LOADS: loads,
    KEEPS_LOADS: perThread <= LOADS_AT_ONCE[precision],
    HAS_REST: keys * headFours % (loads * threads) !== 0,
  });
}

/** Number of threads in a workgroup. */
export function tileThreads({ rows, quads, threadsPerRow }: TileTiling): number {
  return rows / (4 * quads) * threadsPerRow;
}

/** Bytes of workgroup memory, if a vec4 takes `fourBytes`. */
export function tileBytes(headFours: number, fourBytes: number, tiling: TileTiling): number {
  const { rows, quads, isUnpacked, isHalf } = tiling;
  const keys = tiling.threadsPerRow * tiling.keysPerThread;
  const kvBytes = keys * (headFours + 1) * (isUnpacked ? 16 : fourBytes);
  const weightBytes = keys * rows * (isHalf ? 2 : 4);
  return rows * headFours * fourBytes + kvBytes + weightBytes + 16 * quads * tileThreads(tiling);
}
