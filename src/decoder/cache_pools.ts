/**
 * The pools of a paged cache: one of the layers that see all of a sequence, one for each window of the others, and how
 * they share the memory for keys and values.
 *
 * @module
 */
import type { AttentionNode } from "../graph/graph_cut.ts";

/** Tokens per block. */
export const BLOCK_SIZE = 16;

/** Bytes of a cached head of a token, keys or values, of an attention that works in `dtype`. */
export type HeadBytes = (dtype: AttentionNode["dtype"], headSize: number) => number;

/** The layers that share a pool. */
interface LayerPool {
  /** Tokens that a token sees in them, itself included; all if absent. */
  readonly window?: number | undefined;
  /** The most blocks that a sequence holds. */
  readonly mostHeld: number;
  /** Bytes of a block of all its layers. */
  readonly blockBytes: number;
  /** Most blocks that a buffer of the device holds. */
  readonly inBuffers: number;
}

/** What pools depend on. */
interface PoolsOptions {
  /** Tokens of the longest sequence. */
  readonly contextLength: number;
  readonly maxBatchTokens: number;
  readonly maxSequences: number;
  readonly maxBufferBytes: number;
  readonly headBytes: HeadBytes;
}

/** The most blocks that a sequence holds in layers with a window: what the first token of a step sees, and the step's. */
export function mostWindowBlocks(
  { window, blockSize, maxBatchTokens }: {
    readonly window: number;
    readonly blockSize: number;
    readonly maxBatchTokens: number;
  },
): number {
  // They may begin and end anywhere in a block.
  return Math.ceil((window - 1 + maxBatchTokens - 1) / blockSize) + 1;
}

/**
 * Divides layers into pools. Those whose window is not much shorter than the context are in the main pool: they would save
 * nothing.
 *
 * @returns the main pool first, also where no layer is in it: its blocks take no memory then.
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
    const bytes = own.flatMap((node) => bytesOfKinds(node, headBytes));
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

/** All layers in the main pool. */
export function joinPools(pools: readonly LayerPool[]): LayerPool[] {
  return [{
    mostHeld: pools[0]!.mostHeld,
    blockBytes: pools.reduce((sum, { blockBytes }) => sum + blockBytes, 0),
    inBuffers: Math.min(...pools.map(({ inBuffers }) => inBuffers)),
  }];
}

/**
 * The most blocks of each pool, in memory for keys and values that all share.
 *
 * Short sequences want as many blocks of each pool, long ones more of the main pool. Where memory is short, pools of windows
 * give way for a sequence as long as the context, but for half of the blocks that there would be of each.
 */
export function sharePools(
  pools: readonly LayerPool[],
  { poolBytes, maxSequences, roomyBlocks }: {
    readonly poolBytes: number;
    readonly maxSequences: number;
    /** Blocks of each pool that keep known prefixes. */
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

/** Bytes of a block of a layer, keys and values together. */
export function bytesPerBlock(node: AttentionNode, headBytes: HeadBytes): number {
  return bytesOfKinds(node, headBytes).reduce((sum, bytes) => sum + bytes);
}

/** Bytes of the keys of a block, and of its values. */
function bytesOfKinds(
  { kvHeads, headDim, vHeadDim, dtype }: AttentionNode,
  headBytes: HeadBytes,
): number[] {
  return [headDim, vHeadDim].map((size) => BLOCK_SIZE * kvHeads * headBytes(dtype, size));
}
