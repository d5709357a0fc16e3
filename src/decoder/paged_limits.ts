/**
 * Sizes of a paged decoder's cache and steps.
 *
 * @module
 */
import type { EngineSettings } from "../config.ts";
import { stateSize } from "../backend/sequence_states.ts";
import { StartupError } from "../errors.ts";
import type { AttentionSite, GraphCut } from "../onnx/graph_cut.ts";
import type { DecoderLimits } from "./decoder.ts";

const BLOCK_SIZE = 16;
const DEFAULT_KV_CACHE_MB = 1024;
const DEFAULT_MAX_BATCH_TOKENS = 512;
const DEFAULT_MAX_SEQUENCES = 32;
/** Memory for kept states, and bounds of their number. */
const SNAPSHOTS_MB = 256;
const [MIN_SNAPSHOTS, MAX_SNAPSHOTS] = [4, 128];
const MIB = 2 ** 20;

/** What the limits follow from. */
export interface PagedLimitsOptions {
  readonly contextLength: number;
  readonly settings: EngineSettings;
  /** Most bytes that one buffer of the device may have: each site has one for keys and one for values. */
  readonly maxBufferBytes: number;
  /** Bytes of one cached element of an attention that works in `dtype`. */
  readonly elementBytes: (dtype: AttentionSite["dtype"]) => number;
}

/**
 * Sizes the cache as configured or by default, but no larger than full contexts for all sequences would fill, and no
 * larger than the device's buffers allow.
 *
 * @throws {StartupError} when not even one block fits.
 */
export function choosePagedLimits(cut: GraphCut, options: PagedLimitsOptions): DecoderLimits {
  const { settings, maxBufferBytes } = options;
  const maxSequences = settings.maxSequences ?? DEFAULT_MAX_SEQUENCES;
  const contextLength = Math.min(options.contextLength, cut.maxPositions ?? Infinity);
  const perSite = cut.attentions.map((site) =>
    bytesPerBlock(site, options.elementBytes(site.dtype))
  );
  const blockBytes = perSite.reduce((sum, { keys, values }) => sum + keys + values, 0);
  const largest = Math.max(...perSite.flatMap(({ keys, values }) => [keys, values]));

  const kvCacheMb = settings.kvCacheMb ?? DEFAULT_KV_CACHE_MB;
  const numBlocks = Math.min(
    Math.floor((kvCacheMb * MIB) / blockBytes),
    Math.floor(maxBufferBytes / largest),
    maxSequences * Math.ceil(contextLength / BLOCK_SIZE),
  );
  if (numBlocks < 1) {
    throw new StartupError(
      `A KV cache of ${kvCacheMb} MiB holds no block of ${BLOCK_SIZE} tokens, which takes ${blockBytes} bytes: give it more.`,
      { setting: "kvCacheMb" },
    );
  }
  const slotBytes = cut.states.map((site) => 4 * stateSize(site));
  const numStateSlots = cut.states.length === 0 ? undefined : Math.min(
    maxSequences + numSnapshots(slotBytes.reduce((sum, bytes) => sum + bytes, 0)),
    Math.floor(maxBufferBytes / Math.max(...slotBytes, 1)),
  );
  return {
    contextLength: Math.min(contextLength, numBlocks * BLOCK_SIZE),
    vocabSize: cut.output.width,
    maxSequences,
    maxBatchTokens: settings.maxBatchTokens ?? DEFAULT_MAX_BATCH_TOKENS,
    numBlocks,
    blockSize: BLOCK_SIZE,
    sharesBlocks: true,
    numStateSlots,
  };
}

/** Slots for states that are kept for the prompts to come, where one takes so many bytes. */
function numSnapshots(slotBytes: number): number {
  const affordable = Math.floor(SNAPSHOTS_MB * MIB / slotBytes);
  return Math.max(MIN_SNAPSHOTS, Math.min(affordable, MAX_SNAPSHOTS));
}

function bytesPerBlock(
  site: AttentionSite,
  elementBytes: number,
): { keys: number; values: number } {
  const bytesPerElement = BLOCK_SIZE * site.kvHeads * elementBytes;
  return { keys: bytesPerElement * site.headDim, values: bytesPerElement * site.vHeadDim };
}
