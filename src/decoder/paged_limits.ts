/**
 * Sizes of a paged decoder's cache and steps, and its number of slots for recurrent states.
 *
 * @module
 */
import type { EngineSettings } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { choosePool } from "../../kernels/attention/kv_cache.ts";
import type { GraphCut } from "../graph/graph_cut.ts";
import {
  BLOCK_SIZE,
  countBlockBytes,
  divideLayers,
  type HeadBytes,
  joinPools,
  sharePools,
} from "./cache_pools.ts";
import type { DecoderLimits } from "./decoder.ts";
import { stateSize } from "../device/sequence_states.ts";

/** Size of the pool at the start; it grows when sequences need more. */
const START_KV_CACHE_MB = 256;
/** Size up to which the pool grows rather than evict cached prefixes. */
const ROOMY_KV_CACHE_MB = 1024;
const DEFAULT_MAX_BATCH_TOKENS = 512;
const DEFAULT_MAX_SEQUENCES = 32;
const MIB = 2 ** 20;

/** What the limits depend on. */
export interface PagedLimitsOptions {
  /** Context length that the model was trained for. */
  readonly contextLength: number;
  readonly settings: EngineSettings;
  /** Most bytes of one buffer on the device: each node has one for keys and one for values. */
  readonly maxBufferBytes: number;
  readonly headBytes: HeadBytes;
  /** Memory for keys and values if no setting limits it; if absent, what the device gives. */
  readonly memoryBytes?: number | undefined;
}

/** The largest step, as configured or by default. */
export function stepLimits(
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
 * Chooses the limits: sequences may be as long as the model was trained for, and the pools grow until they hold that,
 * as far as settings, memory and the device's buffers allow. Layers with a window get pools of their own if that saves
 * memory.
 *
 * @throws {StartupError} when not even one block fits.
 */
export function choosePagedLimits(cut: GraphCut, options: PagedLimitsOptions): DecoderLimits {
  const { settings, memoryBytes = Infinity } = options;
  const { kvCacheMb, maxModelLength = Infinity } = settings;
  const { maxBatchTokens, maxSequences } = stepLimits(settings);
  const modelLength = Math.min(options.contextLength, cut.maxPositions ?? Infinity);
  const wantedLength = Math.min(modelLength, maxModelLength);
  const poolBytes = kvCacheMb === undefined ? memoryBytes : kvCacheMb * MIB;
  const divided = divideLayers(cut.attentions, {
    ...options,
    ...{ contextLength: wantedLength, maxBatchTokens, maxSequences },
  });
  const totalBytes = divided.reduce((sum, { blockBytes }) => sum + blockBytes, 0);
  const blocksIn = (mib: number) => Math.max(1, Math.floor(mib * MIB / totalBytes));
  // If the memory only holds a window, one pool is enough.
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

/** Memory for saved states, and bounds on their number. */
const SNAPSHOTS_MB = 256;
const [MIN_SNAPSHOTS, MAX_SNAPSHOTS] = [4, 128];

/**
 * One slot for each sequence of a step, and further ones for states that are saved for later prompts, as far as they
 * fit in one device buffer per node.
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

/** Bytes that a number of slots takes. */
export function computeStateBytes({ states }: Pick<GraphCut, "states">, numSlots = 0): number {
  return states.reduce((sum, node) => sum + computeSlotBytes(node), 0) * numSlots;
}

function computeSlotBytes(node: GraphCut["states"][number]): number {
  return Float32Array.BYTES_PER_ELEMENT * stateSize(node);
}
