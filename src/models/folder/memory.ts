/**
 * Checks before loading whether a model fits into memory: an error with numbers is better than a machine that swaps, or
 * a device that fails halfway.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../../device/backend.ts";
import type { Dtype } from "../../base/config.ts";
import { type AxisSizes, planActivations } from "../../decoder/activations.ts";
import { computeStateBytes } from "../../decoder/paged_limits.ts";
import { type Setting, StartupError } from "../../base/errors.ts";
import { formatBytes } from "../../base/bytes.ts";
import { readAvailableBytes } from "../../base/memory_limit.ts";
import {
  listDtypes,
  listExternalData,
  makeGraphPath,
  type ModelFolder,
} from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { findWeights } from "../../graph/experts/mixture.ts";
import { countStoredBytes } from "../../graph/file/tensor.ts";
import type { GraphCut } from "../../graph/graph_cut.ts";

/** onnxruntime-web keeps weights in the memory of one WebAssembly module. */
const WASM_HEAP_BYTES = 2 ** 32;
const MIB = 2 ** 20;

export interface MemoryNeeds {
  readonly weightsBytes: number;
  /** Bytes of the largest weight tensor, which needs a buffer of its own. */
  readonly largestWeightBytes: number;
  /** Bytes of the KV cache: the size that the user chose, otherwise its initial size. */
  readonly cacheBytes: number;
  /** Bytes of the sequences' other states (convolutions, recurrences), and of their snapshots. */
  readonly stateBytes: number;
  readonly activationBytes: number;
  /** Bytes of the largest buffer of activations, which grows with the tokens of a step. */
  readonly largestActivationBytes: number;
}

/** Needs of 0 bytes. Callers replace the fields whose values they know. */
export const NOTHING: MemoryNeeds = {
  weightsBytes: 0,
  largestWeightBytes: 0,
  cacheBytes: 0,
  stateBytes: 0,
  activationBytes: 0,
  largestActivationBytes: 0,
};

export interface MemoryOffer {
  readonly backend: Pick<Backend, "kind" | "runtime" | "maxBufferBytes">;
  /** Available memory of the machine; `undefined` if unknown. */
  readonly availableBytes: number | undefined;
  /** Sizes of the weights in the folder's other dtypes. */
  readonly otherDtypes: readonly { readonly dtype: Dtype; readonly weightsBytes: number }[];
}

/**
 * Estimates the memory that a cut graph's paged decoder needs, without its KV cache.
 *
 * @param options.steps the largest step of each kind: with prompts, and with next tokens only. Each kind has
 * activations of its own.
 * @param options.sharesWeights whether weights that several segments read are in memory only once.
 */
export function estimateCutNeeds(
  cut: GraphCut,
  { steps, sharesWeights, numStateSlots }: {
    readonly steps: readonly AxisSizes[];
    readonly sharesWeights: boolean;
    readonly numStateSlots?: number | undefined;
  },
): MemoryNeeds {
  const tensors = cut.segments.flatMap(({ model }) => model.graph.initializers);
  const counted = sharesWeights
    ? [...new Map(tensors.map((tensor) => [tensor.name, tensor])).values()]
    : tensors;
  const ofExperts = cut.experts.flatMap(({ mixture }) => findWeights(mixture));
  const sizes = [...counted, ...ofExperts].map(countStoredBytes);
  const chunks = steps.flatMap((most) => planActivations(cut, most).chunks);
  return {
    ...NOTHING,
    weightsBytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
    largestWeightBytes: sizes.reduce((most, bytes) => Math.max(most, bytes), 0),
    stateBytes: computeStateBytes(cut, numStateSlots),
    activationBytes: chunks.reduce((sum, bytes) => sum + bytes, 0),
    largestActivationBytes: chunks.reduce((most, bytes) => Math.max(most, bytes), 0),
  };
}

/** Measures a graph's weights in each dtype of the folder except `dtype`. */
export async function weighOtherDtypes(
  { folder, graph, dtype }: { folder: ModelFolder; graph: string; dtype?: Dtype | undefined },
): Promise<MemoryOffer["otherDtypes"]> {
  const others = listDtypes(folder, graph).filter((other) => other !== dtype);
  return await Promise.all(others.map(async (other) => {
    const file = makeGraphPath(graph, other);
    const weightsBytes = await weighFiles(folder, [file, ...listExternalData(folder, file)]);
    return { dtype: other, weightsBytes };
  }));
}

/** Sums the bytes of some files of a folder. */
export async function weighFiles(
  folder: ModelFolder,
  files: readonly string[],
): Promise<number> {
  const sizes = files.map(async (file) => (await Deno.stat(join(folder.path, file))).size);
  return (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, 0);
}

/**
 * Checks that a model fits. WebGPU reports the size of the largest buffer, but not the memory of the GPU: if the
 * machine's memory would not be enough, only a warning is logged.
 *
 * @throws {StartupError} with the numbers and advice on what would fit.
 */
export function requireMemory(needs: MemoryNeeds, offer: MemoryOffer): void {
  const { backend, availableBytes = Infinity } = offer;
  const isNative = backend.runtime === "native";
  if (needs.largestWeightBytes > backend.maxBufferBytes && !isNative) {
    throw makeRefusal(
      `The largest tensor of this model takes ${
        formatBytes(needs.largestWeightBytes)
      }, and buffers of this device hold at most ${formatBytes(backend.maxBufferBytes)}.`,
      adviseOnWeights(offer, backend.maxBufferBytes),
    );
  }
  if (backend.kind === "webgpu" && needs.largestActivationBytes > backend.maxBufferBytes) {
    throw makeRefusal(
      `The tokens of a step take a buffer of ${formatBytes(needs.largestActivationBytes)}, and ` +
        `buffers of this device hold at most ${formatBytes(backend.maxBufferBytes)}.`,
      { text: "Choose fewer tokens for a step.", setting: "maxBatchTokens" },
    );
  }
  if (backend.kind === "cpu" && !isNative && needs.weightsBytes > WASM_HEAP_BYTES) {
    throw makeRefusal(
      `The weights of this model take ${formatBytes(needs.weightsBytes)}, and onnxruntime-web ` +
        `loads at most ${formatBytes(WASM_HEAP_BYTES)} on the CPU.`,
      adviseOnWeights(offer, WASM_HEAP_BYTES),
    );
  }
  const total = needs.weightsBytes + needs.cacheBytes + needs.stateBytes + needs.activationBytes;
  if (total <= availableBytes) return;
  const numbers =
    `${formatBytes(needs.weightsBytes)} for weights, ${
      formatBytes(needs.cacheBytes)
    } for keys and ` +
    `values, ${
      needs.stateBytes > 0 ? `${formatBytes(needs.stateBytes)} for other states of sequences, ` : ""
    }${formatBytes(needs.activationBytes)} for activations; ${
      formatBytes(availableBytes)
    } of the ` +
    "machine's memory is free";
  if (backend.kind !== "cpu") {
    return log.warn("this model may not fit, unless the GPU has memory of its own", { numbers });
  }
  throw makeRefusal(
    `This model does not fit: it takes ${numbers}.`,
    adviseOnTotal(needs, offer, availableBytes),
  );
}

interface Advice {
  readonly text: string;
  readonly setting: Setting;
}

function makeRefusal(fault: string, { text, setting }: Advice): StartupError {
  return new StartupError(`${fault} ${text}`, { setting });
}

function adviseOnTotal(
  { weightsBytes, stateBytes, activationBytes }: MemoryNeeds,
  offer: MemoryOffer,
  availableBytes: number,
): Advice {
  const leftMib = Math.floor((availableBytes - weightsBytes - stateBytes - activationBytes) / MIB);
  if (leftMib >= SMALLEST_KV_CACHE_MIB) {
    return { text: `It would fit with a KV cache of ${leftMib} MiB.`, setting: "kvCacheMb" };
  }
  const cacheBytes = SMALLEST_KV_CACHE_MIB * MIB;
  return adviseOnWeights(offer, availableBytes - stateBytes - activationBytes - cacheBytes);
}

function adviseOnWeights({ otherDtypes }: MemoryOffer, roomBytes: number): Advice {
  const names = otherDtypes.filter(({ weightsBytes }) => weightsBytes <= roomBytes)
    .map(({ dtype, weightsBytes }) => `${dtype} (${formatBytes(weightsBytes)})`);
  const text = names.length === 0
    ? "Free some memory, or choose a smaller model or smaller weights."
    : `It would fit in ${names.join(" or ")}.`;
  return { text, setting: "dtype" };
}

const SMALLEST_KV_CACHE_MIB = 64;
/** Memory reserved for the KV cache before weights get a second copy in another layout. */
const CACHE_BEFORE_COPIES_BYTES = 2 ** 30;
/** The share of free memory that the KV cache may take by default. */
const CACHE_SHARE = 0.6;
/** The share of free memory by which the KV cache may grow at once. */
const GROWTH_SHARE = 0.8;

/** Shares of the memory that weights, states and activations leave. */
interface MemoryShares {
  /** Bytes that a second copy of weights may take. */
  readonly spareBytes: number;
  /** Bytes of the KV cache, unless a setting gives its size. */
  readonly cacheBytes: number;
}

/** Divides the memory that weights, states and activations leave. */
export function shareMemory(
  needs: {
    readonly weightsBytes: number;
    readonly activationBytes: number;
    readonly stateBytes?: number;
  },
  availableBytes = Infinity,
): MemoryShares {
  const { weightsBytes, activationBytes, stateBytes = 0 } = needs;
  const left = Math.max(0, availableBytes - weightsBytes - activationBytes - stateBytes);
  const spareBytes = Math.max(0, left - CACHE_BEFORE_COPIES_BYTES);
  const copied = spareBytes >= needs.weightsBytes ? needs.weightsBytes : 0;
  const cacheBytes = Math.max(CACHE_SHARE * (left - copied), SMALLEST_KV_CACHE_MIB * MIB);
  return { spareBytes, cacheBytes };
}

/** Whether enough of the machine's memory is free for the KV cache to grow by this many bytes. */
export function hasRoomFor(bytes: number): boolean {
  const availableBytes = readAvailableBytes();
  return availableBytes === undefined || bytes <= GROWTH_SHARE * availableBytes;
}
