/**
 * Loads a folder's decoder for the engine: cut at its attention nodes if the graph and the device allow that, otherwise
 * as one graph that runs a sequence at a time.
 *
 * @module
 */
import { cachedHeadBytes, checkQuantized } from "../../../kernels/attention/attention_shape.ts";
import type { Dtype } from "../../base/config.ts";
import type { Decoder } from "../../decoder/decoder.ts";
import type { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import {
  type EncoderDecoderOptions,
  openEncoderDecoder,
  openWholeEncoderDecoder,
} from "../../decoder/open_encoder_decoder.ts";
import type { KernelRule } from "../../decoder/kernel_rule.ts";
import { openPagedDecoder } from "../../decoder/open_paged_decoder.ts";
import {
  choosePagedLimits,
  chooseStateSlots,
  chooseStepLimits,
  computeBlockBytes,
  type HeadBytes,
} from "../../decoder/paged_limits.ts";
import { countMost, toDecodingLimits } from "../../decoder/paged_decoder.ts";
import { UnsupportedGraphError } from "../../decoder/step_inputs.ts";
import { WholeDecoder } from "../../decoder/whole_decoder.ts";
import { StartupError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { adaptForCpu, cutForGpu } from "../../program/adapt_cut.ts";
import type { GraphSession, ValueInfo } from "../../device/ort/ort.ts";
import type { TensorType } from "../../graph/file/tensor.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { divideMerged } from "../../graph/cut/merged_decoder.ts";
import { cutGraph } from "../../graph/cut/cut_graph.ts";
import type { GraphCut } from "../../graph/graph_cut.ts";
import { type GraphContext, type GraphFile, openEmbeddingGraph, readGraph } from "./graph_file.ts";
import { readAvailableBytes } from "../../base/memory_limit.ts";
import type { OpenContext } from "../model.ts";
import {
  estimateCutNeeds,
  hasRoomFor,
  requireMemory,
  shareMemory,
  weighOtherDtypes,
} from "./memory.ts";
import { readContextLength, readHeadSizes, readVocabSize } from "./config_fields.ts";

/** Options for loading the decoder, which is the main graph of its folder. */
export interface DecoderLoadOptions
  extends Pick<OpenContext, "folder" | "graphs" | "backend" | "engine" | "onProgress"> {
  /** Length of the longest sequence in tokens; the model's own limit if absent. */
  readonly contextLength?: number | undefined;
  /** For decoders that take embeddings: opens the graph that computes them from tokens; `embed_tokens` if absent. */
  readonly openEmbedding?: ((dtype: TensorType) => Promise<GraphSession>) | undefined;
  /** Decides which kernels run; by default those that suit the device. */
  readonly rule?: KernelRule | undefined;
  /** Whether the rows of the output are read, whatever they hold, rather than tokens sampled from logits. */
  readonly readsRows?: boolean | undefined;
}

/** The decoder's input for embeddings instead of token ids. */
const EMBEDDINGS = "inputs_embeds";

interface LoadedDecoder {
  readonly decoder: Decoder;
  readonly dtype: Dtype;
  /** The output of the separate graph of token embeddings, if there is one. */
  readonly embeddings: ValueInfo | undefined;
}

/** @throws {StartupError} when the folder lacks a graph, or `config.json` lacks a size. */
export async function loadDecoder(options: DecoderLoadOptions): Promise<LoadedDecoder> {
  await using graph = await readGraph(options);
  const { model, dtype } = graph;
  if (!options.readsRows) requireLogits(graph, options.folder.path);
  let embeddings: ValueInfo | undefined;
  const toOpen: GraphToOpen = {
    ...options,
    graph,
    contextLength: options.contextLength ?? readContextLength(options.folder),
    openEmbedding: async () => {
      const { dtype } = model.graph.inputs.find(({ name }) => name === EMBEDDINGS) ?? {};
      const session = await (options.openEmbedding?.(dtype ?? "float32") ??
        openEmbeddingGraph(options));
      embeddings = session.outputs[0];
      return session;
    },
  };
  const decoder = await openCutOrWhole<Decoder, Decoder>(graph, {
    cut: () => openPaged(toOpen),
    whole: () => openWhole(toOpen),
  });
  return { decoder, dtype, embeddings };
}

/** @throws {StartupError} when a graph was exported without its projection to the vocabulary. */
function requireLogits({ model: { graph }, path }: GraphFile, folder: string): void {
  const names = graph.outputs.map(({ name }) => name);
  const hidden = names.find((name) => /hidden_states?$/.test(name));
  if (hidden === undefined || names.includes("logits")) return;
  throw new StartupError(
    `${folder}/${path} gives ${hidden} and no logits, so no tokens can be sampled: it was exported without its ` +
      "projection to the vocabulary (exclude_lm_head). Export it with the projection.",
  );
}

interface GraphToOpen extends Omit<DecoderLoadOptions, "openEmbedding"> {
  readonly graph: GraphFile;
  readonly contextLength: number;
  readonly openEmbedding: () => Promise<GraphSession>;
}

/** Opens the graph cut at its attention nodes, or returns the reason why that is not possible. */
async function openPaged(options: GraphToOpen): Promise<Decoder | Refused> {
  const { backend, contextLength, engine, folder, graph: { name, dtype, model, files } } = options;
  const result = cutGraph(model, { contextLength });
  if ("refused" in result) return result;
  const { maxBufferBytes } = backend;
  const isQuantized = engine.kvCacheDtype === "q8";
  const headBytes: HeadBytes = (dtype, headSize) => {
    const elem = dtype === "float16" && backend.kind === "webgpu" ? "f16" : "f32";
    return cachedHeadBytes({ headSize, elem, isQuantized });
  };
  const cut = backend.kind === "webgpu"
    ? cutForGpu(result.cut, maxBufferBytes)
    : adaptForCpu(result.cut);
  if (isQuantized && backend.kind === "webgpu") requireQuantizable(cut);
  // Weights are mapped from disk, or lie in buffers shared by the segments.
  const sharesWeights = backend.runtime === "native" || backend.kind === "webgpu";
  const mostSteps = chooseStepLimits(engine);
  const steps = [mostSteps, toDecodingLimits(mostSteps)].map(countMost);
  const availableBytes = readAvailableBytes();
  const slots = { maxSequences: mostSteps.maxSequences, maxBufferBytes };
  const numStateSlots = chooseStateSlots(cut, slots);
  const needs = estimateCutNeeds(cut, { steps, sharesWeights, numStateSlots });
  const shares = shareMemory(needs, availableBytes);
  const limits = choosePagedLimits(cut, {
    ...{ contextLength, settings: engine, maxBufferBytes, headBytes },
    memoryBytes: backend.usesMachineMemory ? shares.cacheBytes : undefined,
  });
  const blockBytes = computeBlockBytes(cut, limits, headBytes);
  const isSet = engine.kvCacheMb !== undefined;
  const cacheBytes = [limits, ...limits.windows ?? []].reduce((sum, pool, i) => {
    const { numBlocks, maxBlocks = numBlocks } = pool;
    return sum + (isSet ? maxBlocks : numBlocks) * blockBytes[i]!;
  }, 0);
  const otherDtypes = await weighOtherDtypes({ folder, graph: name, dtype });
  const offer = { backend, availableBytes, otherDtypes };
  requireMemory({ ...needs, cacheBytes }, offer);
  const hasRoom = isSet || !backend.usesMachineMemory
    ? undefined
    : (numBlocks: number, pool: number) => hasRoomFor(numBlocks * blockBytes[pool]!);
  const { spareBytes } = shares;
  const what = `loading ${options.graph.path}`;
  const onProgress = (fraction: number) => options.onProgress({ what, fraction });
  return await openPagedDecoder({
    ...options,
    cut,
    files,
    limits,
    spareBytes,
    isQuantized,
    isInvariant: engine.batchInvariant,
    hasRoom,
    onProgress,
  });
}

/** @throws {StartupError} when the GPU cannot store this model's keys and values in 8 bits. */
function requireQuantizable({ attentions }: GraphCut): void {
  for (const { headDim: headSize } of attentions) {
    try {
      checkQuantized({ headSize, elem: "f32", isQuantized: true });
    } catch (cause) {
      const { message } = cause as Error;
      throw new StartupError(message, { cause, setting: "kvCacheDtype" });
    }
  }
}

async function openWhole(
  { graph: { model, files, path }, contextLength, folder, ...options }: GraphToOpen,
): Promise<Decoder> {
  return await explainRefusal(`${folder.path}/${path}`, () => {
    const vocabSize = readLogitsWidth(model) ?? readVocabSize(folder);
    const { maxModelLength } = options.engine;
    const headSizes = readHeadSizes(folder);
    const sizes = { contextLength, maxModelLength, vocabSize, headSizes };
    return WholeDecoder.load({ ...options, model, files, ...sizes });
  });
}

/**
 * Runs `open`, which opens a graph uncut.
 *
 * @throws {StartupError} naming the graph, when it cannot be run.
 */
async function explainRefusal(
  path: string,
  open: () => Promise<WholeDecoder>,
): Promise<WholeDecoder> {
  try {
    return await open();
  } catch (error) {
    if (!(error instanceof UnsupportedGraphError)) throw error;
    throw new StartupError(`${path}: ${error.message}`, { cause: error });
  }
}

/** Reads the size of the vocabulary, if the graph declares it. */
function readLogitsWidth({ graph }: ModelProto): number | undefined {
  const width = graph.outputs.find(({ name }) => name === "logits")?.shape?.at(-1);
  return typeof width === "number" ? width : undefined;
}

interface EncoderDecoderLoadOptions<Input extends object>
  extends Omit<EncoderDecoderOptions<Input>, "files" | "backend" | "numPositions">, GraphContext {
  /** Maximum number of positions in the encoder's output for one input; if unknown, the graph is not cut. */
  readonly numPositions: number | undefined;
  /** Size of the vocabulary, for uncut graphs that do not declare it. */
  readonly vocabSize: number;
}

/**
 * Loads a folder's merged decoder, which is its main graph.
 *
 * @throws {StartupError} when the graph does not have the layout of Optimum's exports.
 */
export async function loadEncoderDecoder<Input extends object>(
  options: EncoderDecoderLoadOptions<Input>,
): Promise<EncoderDecoder<Input> | WholeDecoder> {
  await using graph = await readGraph(options);
  const { model: merged, files, path } = graph;
  const { numPositions, folder } = options;
  return await openCutOrWhole(graph, {
    cut: async () => {
      const parts = divideMerged(merged);
      if (parts === undefined) {
        return {
          refused:
            "It is not a merged decoder, which has one branch for the first step and one for later steps.",
        };
      }
      if (numPositions === undefined) {
        return { refused: "The number of encoder positions depends on the size of the input." };
      }
      return await openEncoderDecoder(parts, { ...options, numPositions, files });
    },
    whole: () =>
      explainRefusal(
        `${folder.path}/${path}`,
        () => openWholeEncoderDecoder(merged, { ...options, path, files }),
      ),
  });
}

/** The reason why a graph is not cut, as a sentence. */
type Refused = { readonly refused: string };

/**
 * Opens a graph cut. If that is refused, or throws a `RangeError` because a kernel cannot run one of its nodes, opens
 * the graph uncut.
 */
async function openCutOrWhole<Cut extends object, Whole>(
  { path }: GraphFile,
  open: { readonly cut: () => Promise<Cut | Refused>; readonly whole: () => Promise<Whole> },
): Promise<Cut | Whole> {
  const opened = await open.cut().catch((error): Refused => {
    if (error instanceof RangeError) return { refused: error.message };
    throw error;
  });
  if (!("refused" in opened)) {
    log.info("the graph is cut: a paged decoder runs sequences in shared steps", { graph: path });
    return opened;
  }
  log.warn("the graph is not cut: sequences run one at a time", {
    graph: path,
    reason: opened.refused,
  });
  return await open.whole();
}
