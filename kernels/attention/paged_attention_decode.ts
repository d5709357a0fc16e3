/**
 * Generates WGSL for paged attention with few queries over many keys, after Flash-Decoding (Dao et al., 2023).
 *
 * Like the prefill kernel, it is unrolled for one head size and tiling: see `attention_tile.ts`.
 *
 * @module
 */
import { expand } from "../common/expand.ts";
import template from "./paged_attention_decode.wgsl" with { type: "text" };

/** Number of vec4s of keys that a thread loads at once. */
const LOADS_AT_ONCE = 8;
/** Bytes of the outputs that are combined at a time. */
const JOINED_BYTES = 8192;

/** The work of one workgroup. All fields but `rows` are powers of two. */
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
   * Whether queries are rounded to 15 bits when keys are in 8 bits, for devices with instructions for integer dot
   * products.
   */
  readonly roundsQueries?: boolean | undefined;
}

/**
 * The kernel's declarations and entry point. It takes less than 16 KiB of workgroup memory with the tilings of
 * attention_shape.ts.
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
  const atOnce = Math.min(keyFours, Math.max(1, Math.floor(LOADS_AT_ONCE / keysPerThread)));
  const left = keyFours % atOnce;
  const rowsAtOnce = joinedRows(tiling, columns);
  return expand(template, {
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

/** Number of keys in a tile. */
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
