/**
 * The pools of a paged cache: one for the layers that attend to the whole sequence, and one per window for the others.
 * Decides how they share the memory for keys and values.
 *
 * @module
 */
import type { AttentionNode } from "../graph/graph_cut.ts";

/** Tokens per block. */
export const BLOCK_SIZE = 16;

/** Bytes of one cached head of a token, for keys or values, in an attention node that computes in `dtype`. */
export type HeadBytes = (dtype: AttentionNode["dtype"], headSize: number) => number;

/** Layers that share a pool. */
interface LayerPool {
  /** Tokens that a token attends to in these layers, including itself; all if absent. */
  readonly window?: number | undefined;
  /** The most blocks that a sequence can hold. */
  readonly mostHeld: number;
  /** Bytes of a block over all layers of the pool. */
  readonly blockBytes: number;
  /** Most blocks that fit in the device's buffers. */
  readonly inBuffers: number;
}

/** What the division into pools depends on. */
interface PoolsOptions {
  /** Length of the longest sequence. */
  readonly contextLength: number;
  readonly maxBatchTokens: number;
  readonly maxSequences: number;
  readonly maxBufferBytes: number;
  readonly headBytes: HeadBytes;
}

/**
 * The most blocks that a sequence holds in layers with a window: those that the first token of a step attends to, and
 * those of the step's own tokens.
 */
export function mostWindowBlocks(
  { window, blockSize, maxBatchTokens }: {
    readonly window: number;
    readonly blockSize: number;
    readonly maxBatchTokens: number;
  },
): number {
  // These tokens may begin and end anywhere in a block.
  return Math.ceil((window - 1 + maxBatchTokens - 1) / blockSize) + 1;
}

/**
 * Divides layers into pools. Layers whose window is not much shorter than the context are put into the main pool, as a
 * pool of their own would save nothing.
 *
 * @returns the main pool first, even if it has no layers, in which case its blocks take no memory.
 */
export function divideLayers(
  nodes: readonly AttentionNode[],
  { contextLength, maxBatchTokens, maxBufferBytes, headBytes }: PoolsOptions,
): LayerPool[] {
  const full = Math.ceil(contextLength / BLOCK_SIZE);
  const heldIn = (window: number) =>
    mostWindowBlocks({ window, blockSize: BLOCK_SIZE, maxBatchTokens });
  const windows = [...new Set(nodes.flatMap(({ localWindow }) => localWindow || []))]
    .filter((window) => heldIn(window) < full);
  const getPool = (own: readonly AttentionNode[]) => {
    const bytes = own.flatMap((node) => countKindBytes(node, headBytes));
    return {
      blockBytes: bytes.reduce((sum, each) => sum + each, 0),
      inBuffers: Math.floor(maxBufferBytes / Math.max(0, ...bytes)),
    };
  };
  const isInMain = ({ localWindow }: AttentionNode) => !windows.includes(localWindow ?? 0);
  return [
    { mostHeld: full, ...getPool(nodes.filter(isInMain)) },
    ...windows.map((window) => ({
      window,
      mostHeld: heldIn(window),
      ...getPool(nodes.filter(({ localWindow }) => localWindow === window)),
    })),
  ];
}

/** Puts all layers into the main pool. */
export function joinPools(pools: readonly LayerPool[]): LayerPool[] {
  return [{
    mostHeld: pools[0]!.mostHeld,
    blockBytes: pools.reduce((sum, { blockBytes }) => sum + blockBytes, 0),
    inBuffers: Math.min(...pools.map(({ inBuffers }) => inBuffers)),
  }];
}

/**
 * Decides how many blocks each pool may have, in memory that all pools share.
 *
 * Short sequences need equally many blocks in each pool, long ones more in the main pool. When memory is short, window
 * pools give up blocks so that one sequence of the full context length fits, but keep at least half of their equal
 * share.
 */
export function sharePools(
  pools: readonly LayerPool[],
  { poolBytes, maxSequences, roomyBlocks }: {
    readonly poolBytes: number;
    readonly maxSequences: number;
    /** Blocks of each pool that cache prefixes. */
    readonly roomyBlocks: number;
  },
): number[] {
  const [main, ...windows] = pools as [LayerPool, ...LayerPool[]];
  const total = pools.reduce((sum, { blockBytes }) => sum + blockBytes, 0);
  const even = Math.floor(poolBytes / total);
  const left = (poolBytes - main.mostHeld * main.blockBytes) / (total - main.blockBytes);
  const ofWindows = windows.map(({ mostHeld, inBuffers }) => {
    const wanted = Math.min(Math.max(maxSequences * mostHeld, roomyBlocks), even, inBuffers);
    return Math.max(mostHeld, Math.min(wanted, Math.max(Math.floor(left), Math.floor(even / 2))));
  });
  const taken = windows.reduce((sum, { blockBytes }, i) => sum + ofWindows[i]! * blockBytes, 0);
  const ofMain = Math.min(
    main.blockBytes === 0 ? Infinity : Math.floor((poolBytes - taken) / main.blockBytes),
    main.inBuffers,
    maxSequences * main.mostHeld,
  );
  return [ofMain, ...ofWindows];
}

/** Bytes of a block of one layer, keys and values together. */
export function countBlockBytes(node: AttentionNode, headBytes: HeadBytes): number {
  return countKindBytes(node, headBytes).reduce((sum, bytes) => sum + bytes);
}

/** Bytes of the keys of a block, and of its values. */
function countKindBytes(
  { kvHeads, headDim, vHeadDim, dtype }: AttentionNode,
  headBytes: HeadBytes,
): number[] {
  return [headDim, vHeadDim].map((size) => BLOCK_SIZE * kvHeads * headBytes(dtype, size));
}
