/**
 * Whether a model fits into memory, found out before it is loaded: a machine that swaps, or a device that gives up
 * half-way, says less than a refusal with the numbers.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import type { DecoderLimits } from "../decoder/decoder.ts";
import { mostOf } from "../decoder/paged_decoder.ts";
import { bytesOf } from "../decoder/segment_runner.ts";
import { planStorage } from "../decoder/storage_plan.ts";
import { StartupError } from "../errors.ts";
import { formatBytes } from "../format_bytes.ts";
import { log } from "../log.ts";
import { storedBytes } from "../onnx/external_data.ts";
import type { GraphCut } from "../onnx/graph_cut.ts";
import { dtypesOf, externalDataFiles, graphFile, type ModelFolder } from "../hub/model_folder.ts";

/** onnxruntime-web keeps weights in the memory of one WebAssembly module. */
const WASM_HEAP_BYTES = 2 ** 32;
const MIB = 2 ** 20;
const SMALLEST_KV_CACHE_MIB = 64;

/** What a model takes. */
export interface MemoryNeeds {
  readonly weightsBytes: number;
  /** The largest tensor of weights, which takes one buffer. */
  readonly largestWeightBytes: number;
  /** Keys and values; their number is the user's to choose. */
  readonly cacheBytes: number;
  readonly activationBytes: number;
}

/** Needs to start from. */
export const NOTHING: MemoryNeeds = {
  weightsBytes: 0,
  largestWeightBytes: 0,
  cacheBytes: 0,
  activationBytes: 0,
};

/** What there is. */
export interface MemoryOffer {
  readonly backend: Pick<Backend, "kind" | "runtime" | "maxBufferBytes">;
  /** Memory of the machine that is free, or can be had; `undefined` where it does not tell. */
  readonly availableBytes: number | undefined;
  /** The weights in the folder's other dtypes. */
  readonly otherDtypes: readonly { readonly dtype: Dtype; readonly weightsBytes: number }[];
}

/**
 * What the paged decoder of a cut graph takes.
 *
 * @param options.sharesWeights whether those that several segments read are in memory once.
 */
export function needsOfCut(
  cut: GraphCut,
  limits: DecoderLimits,
  { elementBytes, sharesWeights }: {
    readonly elementBytes: (dtype: "float32" | "float16") => number;
    readonly sharesWeights: boolean;
  },
): MemoryNeeds {
  const tensors = cut.segments.flatMap(({ model }) => model.graph.initializers);
  const counted = sharesWeights
    ? [...new Map(tensors.map((tensor) => [tensor.name, tensor])).values()]
    : tensors;
  const sizes = counted.map(storedBytes);
  const cachedElements = cut.attentions.reduce(
    (sum, { dtype, kvHeads, headDim, vHeadDim }) =>
      sum + kvHeads * (headDim + vHeadDim) * elementBytes(dtype),
    0,
  );
  const { pieces } = planStorage(cut, (port) => bytesOf(port, mostOf(limits)));
  return {
    weightsBytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
    largestWeightBytes: sizes.reduce((most, bytes) => Math.max(most, bytes), 0),
    cacheBytes: cachedElements * limits.blockSize * limits.numBlocks,
    activationBytes: pieces.reduce((sum, bytes) => sum + bytes, 0),
  };
}

/** The bytes of a graph's weights in each dtype of its folder, but the one named. */
export async function weighOtherDtypes(
  { folder, graph, dtype }: { folder: ModelFolder; graph: string; dtype?: Dtype | undefined },
): Promise<MemoryOffer["otherDtypes"]> {
  const others = dtypesOf(folder, graph).filter((other) => other !== dtype);
  return await Promise.all(others.map(async (other) => {
    const file = graphFile(graph, other);
    const weightsBytes = await weighFiles(folder, [file, ...externalDataFiles(folder, file)]);
    return { dtype: other, weightsBytes };
  }));
}

/** The bytes of files of a folder. */
export async function weighFiles(
  folder: ModelFolder,
  files: readonly string[],
): Promise<number> {
  const sizes = files.map(async (file) => (await Deno.stat(join(folder.path, file))).size);
  return (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, 0);
}

/**
 * Checks that a model fits. Of a GPU's own memory nothing can be learnt but its largest buffer: where the machine's
 * would not do, the log warns.
 *
 * @throws {StartupError} with the numbers, and what would fit.
 */
export function requireMemory(needs: MemoryNeeds, offer: MemoryOffer): void {
  const { backend, availableBytes = Infinity } = offer;
  const isNative = backend.runtime === "native";
  if (needs.largestWeightBytes > backend.maxBufferBytes && !isNative) {
    throw new StartupError(
      `The largest tensor of this model takes ${
        formatBytes(needs.largestWeightBytes)
      }, and a buffer of this ` +
        `device at most ${formatBytes(backend.maxBufferBytes)}. ${
          adviseOnWeights(offer, backend.maxBufferBytes)
        }`,
    );
  }
  if (backend.kind === "cpu" && !isNative && needs.weightsBytes > WASM_HEAP_BYTES) {
    throw new StartupError(
      `The weights of this model take ${
        formatBytes(needs.weightsBytes)
      }, and onnxruntime-web loads at most ` +
        `${formatBytes(WASM_HEAP_BYTES)} on the CPU. ${adviseOnWeights(offer, WASM_HEAP_BYTES)}`,
    );
  }
  const total = needs.weightsBytes + needs.cacheBytes + needs.activationBytes;
  if (total <= availableBytes) return;
  const numbers =
    `${formatBytes(needs.weightsBytes)} for weights, ${
      formatBytes(needs.cacheBytes)
    } for keys and ` +
    `values, ${formatBytes(needs.activationBytes)} for activations; ${
      formatBytes(availableBytes)
    } of the ` +
    "machine's memory are free";
  if (backend.kind !== "cpu") {
    return log.warn("this model may not fit, unless the GPU has memory of its own", { numbers });
  }
  throw new StartupError(
    `This model does not fit: it takes ${numbers}. ${adviseOnTotal(needs, offer, availableBytes)}`,
  );
}

function adviseOnTotal(
  { weightsBytes, activationBytes }: MemoryNeeds,
  offer: MemoryOffer,
  availableBytes: number,
): string {
  const leftMib = Math.floor((availableBytes - weightsBytes - activationBytes) / MIB);
  if (leftMib >= SMALLEST_KV_CACHE_MIB) return `It would fit with --kv-cache-mb ${leftMib}.`;
  const cacheBytes = SMALLEST_KV_CACHE_MIB * MIB;
  return adviseOnWeights(offer, availableBytes - activationBytes - cacheBytes);
}

function adviseOnWeights({ otherDtypes }: MemoryOffer, roomBytes: number): string {
  const fitting = otherDtypes.filter(({ weightsBytes }) => weightsBytes <= roomBytes);
  if (fitting.length === 0) {
    return "Free some memory, or choose a smaller model, or smaller weights of it with --dtype.";
  }
  const names = fitting.map(({ dtype, weightsBytes }) => `${dtype} (${formatBytes(weightsBytes)})`);
  return `It would fit with --dtype ${names.join(" or ")}.`;
}
