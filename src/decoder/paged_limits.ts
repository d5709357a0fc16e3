/**
 * Sizes of a paged decoder's cache and steps.
 *
 * @module
 */
import type { EngineSettings } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import type { AttentionSite, GraphCut } from "../graph/graph_cut.ts";
import type { DecoderLimits } from "./decoder.ts";
import { chooseStateSlots } from "./state_slots.ts";

const BLOCK_SIZE = 16;
/** The pool at first; it grows when sequences need more. */
const START_KV_CACHE_MB = 256;
/** The pool up to which known prefixes are kept rather than given up. */
const ROOMY_KV_CACHE_MB = 1024;
const DEFAULT_MAX_BATCH_TOKENS = 512;
const DEFAULT_MAX_SEQUENCES = 32;
const MIB = 2 ** 20;

/** What the limits follow from. */
export interface PagedLimitsOptions {
  /** Tokens that the model was made for. */
  readonly contextLength: number;
  readonly settings: EngineSettings;
  /** Most bytes that one buffer of the device may have: each site has one for keys and one for values. */
  readonly maxBufferBytes: number;
  /** Bytes of a cached head of a token, keys or values, of an attention that works in `dtype`. */
  readonly headBytes: (dtype: AttentionSite["dtype"], headSize: number) => number;
  /** Memory for keys and values where no setting says how much; what the device gives if absent. */
  readonly memoryBytes?: number | undefined;
}

/** The most a step may hold, as configured or by default. */
export function stepLimits(
  { maxBatchTokens = DEFAULT_MAX_BATCH_TOKENS, maxSequences = DEFAULT_MAX_SEQUENCES }:
    EngineSettings,
): Pick<DecoderLimits, "maxBatchTokens" | "maxSequences"> {
  return { maxBatchTokens, maxSequences };
}

/** Bytes of a block of all attentions of a cut. */
export function blockBytesOf(
  cut: Pick<GraphCut, "attentions">,
  headBytes: PagedLimitsOptions["headBytes"],
): number {
  return cut.attentions.map((site) => bytesPerBlock(site, headBytes))
    .reduce((sum, { keys, values }) => sum + keys + values, 0);
}

/**
 * Lets sequences be as long as the model was made for, and the pool grow until all of them are, as far as settings, the
 * memory and the device's buffers allow.
 *
 * @throws {StartupError} when not even one block fits.
 */
export function choosePagedLimits(cut: GraphCut, options: PagedLimitsOptions): DecoderLimits {
  const { settings, headBytes, maxBufferBytes, memoryBytes = Infinity } = options;
  const { kvCacheMb, maxModelLength = Infinity } = settings;
  const { maxBatchTokens, maxSequences } = stepLimits(settings);
  const modelLength = Math.min(options.contextLength, cut.maxPositions ?? Infinity);
  const wantedLength = Math.min(modelLength, maxModelLength);
  const blockBytes = blockBytesOf(cut, headBytes);
  const largest = Math.max(
    ...cut.attentions.flatMap((site) => Object.values(bytesPerBlock(site, headBytes))),
  );

  const poolBytes = kvCacheMb === undefined ? memoryBytes : kvCacheMb * MIB;
  const inPool = Math.floor(poolBytes / blockBytes);
  const inBuffers = Math.floor(maxBufferBytes / largest);
  const maxBlocks = Math.min(
    inPool,
    inBuffers,
    maxSequences * Math.ceil(wantedLength / BLOCK_SIZE),
  );
  if (maxBlocks < 1) {
    throw new StartupError(
      `A KV cache of ${
        Math.floor(Math.min(poolBytes, maxBufferBytes) / MIB)
      } MiB holds no block of ${BLOCK_SIZE} tokens, which takes ${blockBytes} bytes: give it more.`,
      { setting: "kvCacheMb" },
    );
  }
  const blocksIn = (mib: number) => Math.max(1, Math.floor(mib * MIB / blockBytes));
  const contextLength = Math.min(wantedLength, maxBlocks * BLOCK_SIZE);
  const poolLimit = inBuffers < inPool
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
    numBlocks: Math.min(maxBlocks, blocksIn(START_KV_CACHE_MB)),
    roomyBlocks: Math.min(maxBlocks, blocksIn(kvCacheMb ?? ROOMY_KV_CACHE_MB)),
    maxBlocks,
    blockSize: BLOCK_SIZE,
    sharesBlocks: true,
    numStateSlots: chooseStateSlots(cut, { maxSequences, maxBufferBytes }),
    longFrom: cut.longFrom,
  };
}

function bytesPerBlock(
  { kvHeads, headDim, vHeadDim, dtype }: AttentionSite,
  headBytes: PagedLimitsOptions["headBytes"],
): { keys: number; values: number } {
  const numHeads = BLOCK_SIZE * kvHeads;
  return {
    keys: numHeads * headBytes(dtype, headDim),
    values: numHeads * headBytes(dtype, vHeadDim),
  };
}
