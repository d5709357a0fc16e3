/**
 * The decoder of a model folder.
 *
 * @module
 */
import type { Dtype } from "../config.ts";
import type { Decoder } from "../decoder/decoder.ts";
import { openPagedDecoder } from "../decoder/open_paged_decoder.ts";
import { choosePagedLimits } from "../decoder/paged_limits.ts";
import { UnsupportedGraphError, WholeDecoder } from "../decoder/whole_decoder.ts";
import { StartupError } from "../errors.ts";
import { log } from "../log.ts";
import { cutForGpu } from "../onnx/compile/gpu_cut.ts";
import { widenCut } from "../onnx/rewrite/widen_cut.ts";
import type { GraphSession, ValueInfo } from "../onnx/runtime/ort.ts";
import type { TensorType } from "../onnx/file/dtype.ts";
import type { ModelProto } from "../onnx/file/proto.ts";
import { splitGraph } from "../onnx/cut/split.ts";
import { type GraphFile, openEmbeddingGraph, readGraph } from "./graph_file.ts";
import type { OpenContext } from "./open_context.ts";
import { needsOfCut, readAvailableBytes, requireMemory, weighOtherDtypes } from "./memory.ts";
import { contextLengthOf, vocabSizeOf } from "./text_sizes.ts";

/** How to load a decoder, which is the main one of the graphs. */
export interface DecoderLoadOptions
  extends Pick<OpenContext, "folder" | "graphs" | "backend" | "engine" | "onProgress"> {
  /** Tokens of the longest sequence; as many as the model was made for if absent. */
  readonly contextLength?: number | undefined;
  /** Opens what turns tokens into embeddings of a dtype, where the decoder takes those; `embed_tokens` if absent. */
  readonly openEmbedding?: ((dtype: TensorType) => Promise<GraphSession>) | undefined;
}

/** What a decoder's graph calls embeddings that it takes in place of token ids. */
const EMBEDDINGS = "inputs_embeds";

interface LoadedDecoder {
  readonly decoder: Decoder;
  readonly dtype: Dtype;
  /** The embeddings' graph, if separate. */
  readonly embeddings: ValueInfo | undefined;
}

/**
 * Loads a folder's decoder.
 *
 * @throws {StartupError} when there is no such graph, or `config.json` lacks a size.
 */
export async function loadDecoder(options: DecoderLoadOptions): Promise<LoadedDecoder> {
  await using graph = await readGraph(options);
  const { model, dtype, path } = graph;
  let embeddings: ValueInfo | undefined;
  const toOpen: GraphToOpen = {
    ...options,
    graph,
    contextLength: options.contextLength ?? contextLengthOf(options.folder),
    openEmbedding: async () => {
      const { dtype } = model.graph.inputs.find(({ name }) => name === EMBEDDINGS) ?? {};
      const session = await (options.openEmbedding?.(dtype ?? "float32") ??
        openEmbeddingGraph(options));
      embeddings = session.outputs[0];
      return session;
    },
  };
  const opened = await openPaged(toOpen);
  if (!("refused" in opened)) {
    log.info("the graph is cut: sequences share steps of a paged decoder", { graph: path });
    return { decoder: opened, dtype, embeddings };
  }
  log.warn("the graph is not cut: one sequence at a time", { graph: path, reason: opened.refused });
  return { decoder: await openWhole(toOpen), dtype, embeddings };
}

interface GraphToOpen extends Omit<DecoderLoadOptions, "openEmbedding"> {
  readonly graph: GraphFile;
  readonly contextLength: number;
  readonly openEmbedding: () => Promise<GraphSession>;
}

/** Opens the graph cut at its attentions; or says why that is not possible. */
async function openPaged(options: GraphToOpen): Promise<Decoder | { readonly refused: string }> {
  const { backend, contextLength, engine, folder, graph: { name, dtype, model, files } } = options;
  const result = splitGraph(model, { contextLength });
  if ("refused" in result) return result;
  const { maxBufferBytes } = backend;
  const elementBytes = (dtype: "float32" | "float16") =>
    dtype === "float16" && backend.kind === "webgpu" ? 2 : 4;
  try {
    const cut = backend.kind === "webgpu"
      ? cutForGpu(result.cut, maxBufferBytes)
      : widenCut(result.cut);
    const sizes = { contextLength, settings: engine, maxBufferBytes, elementBytes };
    const limits = choosePagedLimits(cut, sizes);
    // Weights are mapped from disk, or in buffers shared by the segments.
    const sharesWeights = backend.runtime === "native" || backend.kind === "webgpu";
    const needs = needsOfCut(cut, limits, { elementBytes, sharesWeights });
    const availableBytes = await readAvailableBytes();
    const otherDtypes = await weighOtherDtypes({ folder, graph: name, dtype });
    requireMemory(needs, { backend, availableBytes, otherDtypes });
    const { weightsBytes, cacheBytes, activationBytes } = needs;
    const spareBytes = (availableBytes ?? Infinity) - weightsBytes - cacheBytes - activationBytes;
    const what = `loading ${options.graph.path}`;
    const onProgress = (fraction: number) => options.onProgress({ what, fraction });
    return await openPagedDecoder({ ...options, cut, files, limits, spareBytes, onProgress });
  } catch (error) {
    if (error instanceof RangeError) return { refused: error.message };
    throw error;
  }
}

async function openWhole(
  { graph: { model, files, path }, contextLength, folder, ...options }: GraphToOpen,
): Promise<Decoder> {
  try {
    const vocabSize = widthOfLogits(model) ?? vocabSizeOf(folder);
    return await WholeDecoder.load({ ...options, model, files, contextLength, vocabSize });
  } catch (error) {
    if (!(error instanceof UnsupportedGraphError)) throw error;
    throw new StartupError(`${folder.path}/${path}: ${error.message}`, { cause: error });
  }
}

/** The vocabulary's size, where the graph says it. */
function widthOfLogits({ graph }: ModelProto): number | undefined {
  const width = graph.outputs.find(({ name }) => name === "logits")?.shape?.at(-1);
  return typeof width === "number" ? width : undefined;
}
