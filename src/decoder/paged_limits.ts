/**
 * Chooses the sizes of a paged decoder's steps and cache, and its number of slots for recurrent states.
 *
 * The cache has one pool of blocks for the layers that attend to the whole sequence, and one per window for the others.
 *
 * @module
 */
import type { AttentionNode, GraphCut } from "../graph/graph_cut.ts";
import type { EngineSettings } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { choosePool } from "../../kernels/attention/attention_shape.ts";
import type { DecoderLimits } from "./decoder.ts";
import { stateSize } from "../device/kernel_nodes.ts";

/** Tokens per block. */
export const BLOCK_SIZE = 16;

/** Bytes of one cached head of a token, for keys or values, in an attention node that computes in `dtype`. */
export type HeadBytes = (dtype: AttentionNode["dtype"], headSize: number) => number;

/** Layers that share a pool. */
interface LayerPool {
  /** Tokens that a token attends to in these layers, including itself; all if absent. */
  readonly window?: number | undefined;
  /** Maximum number of blocks that a sequence can hold. */
  readonly mostHeld: number;
  /** Bytes of a block over all layers of the pool. */
  readonly blockBytes: number;
  /** Maximum number of blocks that fit in the device's buffers. */
  readonly inBuffers: number;
}

/** Options of {@linkcode divideLayers}. */
interface PoolsOptions {
  /** Length of the longest sequence. */
  readonly contextLength: number;
  readonly maxBatchTokens: number;
  readonly maxSequences: number;
  readonly maxBufferBytes: number;
  readonly headBytes: HeadBytes;
}

/**
 * Maximum number of blocks that a sequence holds in layers with a window. They contain the tokens to which the first
 * token of a step attends, and the tokens of the step.
 */
export function countMostWindowBlocks(
  { window, blockSize, maxBatchTokens }: {
    readonly window: number;
    readonly blockSize: number;
    readonly maxBatchTokens: number;
  },
): number {
  // The first and the last token may be anywhere in a block.
  return Math.ceil((window - 1 + maxBatchTokens - 1) / blockSize) + 1;
}

/**
 * Divides layers into pools. Layers whose window is not much shorter than the context are put into the main pool,
 * because a pool of their own would save no memory.
 *
 * @returns the main pool first, even if it has no layers, in which case its blocks take no memory.
 */
export function divideLayers(
  nodes: readonly AttentionNode[],
  { contextLength, maxBatchTokens, maxBufferBytes, headBytes }: PoolsOptions,
): LayerPool[] {
  const full = Math.ceil(contextLength / BLOCK_SIZE);
  const heldIn = (window: number) =>
    countMostWindowBlocks({ window, blockSize: BLOCK_SIZE, maxBatchTokens });
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
function joinPools(pools: readonly LayerPool[]): LayerPool[] {
  return [{
    mostHeld: pools[0]!.mostHeld,
    blockBytes: pools.reduce((sum, { blockBytes }) => sum + blockBytes, 0),
    inBuffers: Math.min(...pools.map(({ inBuffers }) => inBuffers)),
  }];
}

/**
 * Decides how many blocks each pool may have, in memory that all pools share.
 *
 * Short sequences need equally many blocks in each pool, long ones need more in the main pool. If memory is short,
 * window pools get fewer blocks than the main pool, so that a sequence of the full context length fits. But they get at
 * least half of what an equal division would give them.
 */
function sharePools(
  pools: readonly LayerPool[],
  { poolBytes, maxSequences, roomyBlocks }: {
    readonly poolBytes: number;
    readonly maxSequences: number;
    /** Number of blocks up to which a pool grows to cache prefixes. */
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

/** The number of bytes of a block in one layer, keys and values together. */
export function countBlockBytes(node: AttentionNode, headBytes: HeadBytes): number {
  return countKindBytes(node, headBytes).reduce((sum, bytes) => sum + bytes);
}

/** The number of bytes of a block's keys, and of its values, in one layer. */
function countKindBytes(
  { kvHeads, headDim, vHeadDim, dtype }: AttentionNode,
  headBytes: HeadBytes,
): number[] {
  return [headDim, vHeadDim].map((size) => BLOCK_SIZE * kvHeads * headBytes(dtype, size));
}

/** Size of all pools together at the start; a pool grows when sequences need more. */
const START_KV_CACHE_MB = 256;
/** Size up to which the pools grow rather than evict cached prefixes. */
const ROOMY_KV_CACHE_MB = 1024;
const DEFAULT_MAX_BATCH_TOKENS = 512;
const DEFAULT_MAX_SEQUENCES = 32;
const MIB = 2 ** 20;

/** Options of {@linkcode choosePagedLimits}. */
export interface PagedLimitsOptions {
  /** Context length that the model was trained for. */
  readonly contextLength: number;
  readonly settings: EngineSettings;
  /** Maximum number of bytes of one buffer on the device: each node has one for keys and one for values. */
  readonly maxBufferBytes: number;
  readonly headBytes: HeadBytes;
  /** Memory for keys and values if no setting limits it; if absent, what the device gives. */
  readonly memoryBytes?: number | undefined;
}

/** The limits of a step, from the settings or by default. */
export function chooseStepLimits(
  { maxBatchTokens = DEFAULT_MAX_BATCH_TOKENS, maxSequences = DEFAULT_MAX_SEQUENCES }:
    EngineSettings,
): Pick<DecoderLimits, "maxBatchTokens" | "maxSequences"> {
  return { maxBatchTokens, maxSequences };
}

/** Bytes of a block of each pool, the main one first. */
export function computeBlockBytes(
  { attentions }: Pick<GraphCut, "attentions">,
  { windows = [] }: Pick<DecoderLimits, "windows">,
  headBytes: HeadBytes,
): number[] {
  const bytes = [0, ...windows.map(() => 0)];
  for (const node of attentions) {
    bytes[choosePool(node.localWindow ?? 0, windows)]! += countBlockBytes(node, headBytes);
  }
  return bytes;
}

/**
 * Chooses the limits. Sequences may be as long as those that the model was trained for, as far as settings, memory and
 * the device's buffers allow, and the pools grow until they hold such a sequence. Layers with a window get pools of
 * their own if that saves memory.
 *
 * @throws {StartupError} when not even one block fits.
 */
export function choosePagedLimits(cut: GraphCut, options: PagedLimitsOptions): DecoderLimits {
  const { settings, memoryBytes = Infinity } = options;
  const { kvCacheMb, maxModelLength = Infinity } = settings;
  const { maxBatchTokens, maxSequences } = chooseStepLimits(settings);
  const modelLength = Math.min(options.contextLength, cut.maxPositions ?? Infinity);
  const wantedLength = Math.min(modelLength, maxModelLength);
  const poolBytes = kvCacheMb === undefined ? memoryBytes : kvCacheMb * MIB;
  const divided = divideLayers(cut.attentions, {
    ...options,
    ...{ contextLength: wantedLength, maxBatchTokens, maxSequences },
  });
  const totalBytes = divided.reduce((sum, { blockBytes }) => sum + blockBytes, 0);
  const blocksIn = (mib: number) => Math.max(1, Math.floor(mib * MIB / totalBytes));
  // If a pool cannot hold a whole window, one pool for all layers is enough.
  const hasRoom = divided.slice(1).every(({ mostHeld, inBuffers }) =>
    mostHeld <= Math.min(poolBytes / totalBytes, inBuffers)
  );
  const pools = hasRoom ? divided : joinPools(divided);
  const roomyBlocks = blocksIn(ROOMY_KV_CACHE_MB);
  const most = sharePools(pools, { poolBytes, maxSequences, roomyBlocks });
  const [maxBlocks] = most as [number];
  if (maxBlocks < 1) {
    const bytes = Math.min(poolBytes, options.maxBufferBytes);
    throw new StartupError(
      `A KV cache of ${
        Math.floor(bytes / MIB)
      } MiB holds no block of ${BLOCK_SIZE} tokens, which takes ${totalBytes} bytes: give it more.`,
      { setting: "kvCacheMb" },
    );
  }
  const computeSizes = (maxBlocks: number) => ({
    numBlocks: Math.min(maxBlocks, blocksIn(START_KV_CACHE_MB)),
    roomyBlocks: kvCacheMb === undefined ? Math.min(maxBlocks, roomyBlocks) : maxBlocks,
    maxBlocks,
  });
  const contextLength = Math.min(wantedLength, maxBlocks * BLOCK_SIZE);
  const poolLimit = pools[0]!.inBuffers === maxBlocks
    ? "buffer"
    : kvCacheMb === undefined
    ? "memory"
    : "kvCacheMb";
  return {
    contextLength,
    modelLength,
    ...contextLength < modelLength && {
      lengthLimit: contextLength < wantedLength ? poolLimit : "maxModelLength",
    },
    vocabSize: cut.output.width,
    maxSequences,
    maxBatchTokens,
    // A main pool without layers takes no memory.
    ...pools[0]!.blockBytes === 0 ? { numBlocks: maxBlocks } : computeSizes(maxBlocks),
    ...pools.length > 1 && {
      windows: pools.slice(1).map(({ window }, i) => ({
        window: window!,
        ...computeSizes(most[i + 1]!),
      })),
    },
    blockSize: BLOCK_SIZE,
    sharesBlocks: true,
    numStateSlots: chooseStateSlots(cut, { maxSequences, maxBufferBytes: options.maxBufferBytes }),
    longFrom: cut.longFrom,
  };
}

/** Memory for saved recurrent states in MiB, and bounds on their number. */
const SNAPSHOTS_MB = 256;
const [MIN_SNAPSHOTS, MAX_SNAPSHOTS] = [4, 128];

/**
 * Chooses the number of slots for recurrent states: one for each sequence of a step, and further ones for states that
 * are saved for later prompts. A node's slots must fit in one buffer of the device.
 *
 * @returns `undefined` for a cut without states.
 */
export function chooseStateSlots(
  { states }: Pick<GraphCut, "states">,
  { maxSequences, maxBufferBytes }: {
    readonly maxSequences: number;
    readonly maxBufferBytes: number;
  },
): number | undefined {
  if (states.length === 0) return undefined;
  const sizes = states.map(computeSlotBytes);
  const slotBytes = sizes.reduce((sum, bytes) => sum + bytes, 0);
  const affordable = Math.floor(SNAPSHOTS_MB * MIB / slotBytes);
  const numSnapshots = Math.max(MIN_SNAPSHOTS, Math.min(affordable, MAX_SNAPSHOTS));
  return Math.min(
    maxSequences + numSnapshots,
    Math.floor(maxBufferBytes / Math.max(...sizes, 1)),
  );
}

/** The number of bytes that `numSlots` slots for recurrent states take. */
export function computeStateBytes({ states }: Pick<GraphCut, "states">, numSlots = 0): number {
  return states.reduce((sum, node) => sum + computeSlotBytes(node), 0) * numSlots;
}

function computeSlotBytes(node: GraphCut["states"][number]): number {
  return Float32Array.BYTES_PER_ELEMENT * stateSize(node);
}
