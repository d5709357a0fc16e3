/**
 * The decoder of a model folder.
 *
 * @module
 */
import { join } from "node:path";
import type { Dtype } from "../config.ts";
import type { Decoder } from "../decoder/decoder.ts";
import { openPagedDecoder } from "../decoder/open_paged_decoder.ts";
import { choosePagedLimits } from "../decoder/paged_limits.ts";
import { UnsupportedGraphError, WholeDecoder } from "../decoder/whole_decoder.ts";
import { StartupError } from "../errors.ts";
import { log } from "../log.ts";
import { cutForGpu } from "../onnx/compile/gpu_cut.ts";
import { FolderFiles } from "../onnx/file/external_data.ts";
import type { GraphCut } from "../onnx/graph_cut.ts";
import type { GraphSession, ValueInfo } from "../onnx/runtime/ort.ts";
import type { TensorType } from "../onnx/file/dtype.ts";
import type { ModelProto } from "../onnx/file/proto.ts";
import { readModel } from "../onnx/file/proto_read.ts";
import { splitGraph } from "../onnx/cut/split.ts";
import { openEmbeddingGraph } from "./companion_graph.ts";
import type { OpenContext } from "./family.ts";
import { readAvailableBytes } from "./available_memory.ts";
import { needsOfCut, requireMemory, weighOtherDtypes } from "./memory.ts";
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

/** A decoder and what was chosen for it. */
export interface LoadedDecoder {
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
  const { folder, graphs, onProgress } = options;
  const { name: graph, dtype, path } = graphs.main;
  const fileName = path.slice(path.lastIndexOf("/") + 1);
  await using files = new FolderFiles(join(folder.path, "onnx"));
  onProgress({ what: `reading ${path}` });
  const contextLength = options.contextLength ?? contextLengthOf(folder);
  const model = await readModel(files, fileName);
  const result = splitGraph(model, { contextLength });
  let embeddings: ValueInfo | undefined;
  const openEmbedding = async () => {
    const { dtype } = model.graph.inputs.find(({ name }) => name === EMBEDDINGS) ?? {};
    const session = await (options.openEmbedding?.(dtype ?? "float32") ??
      openEmbeddingGraph(options));
    embeddings = session.outputs[0];
    return session;
  };
  const toOpen = { ...options, dtype, graph, contextLength, path, openEmbedding };
  let reason: string;
  if ("refused" in result) reason = result.refused;
  else {
    try {
      const cut = options.backend.kind === "webgpu"
        ? cutForGpu(result.cut, {
          maxBufferBytes: options.backend.maxBufferBytes,
          joinsProducts: true,
        })
        : result.cut;
      const decoder = await openPaged(cut, { ...toOpen, files });
      log.info("the graph is cut: sequences share steps of a paged decoder", { graph: path });
      return { decoder, dtype, embeddings };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      reason = error.message;
    }
  }
  log.warn("the graph is not cut: one sequence at a time", { graph: path, reason });
  return { decoder: await openWhole(model, { ...toOpen, files }), dtype, embeddings };
}

interface GraphToOpen extends Omit<DecoderLoadOptions, "openEmbedding"> {
  readonly dtype: Dtype;
  readonly graph: string;
  readonly path: string;
  readonly contextLength: number;
  readonly openEmbedding: () => Promise<GraphSession>;
}

async function openPaged(
  cut: GraphCut,
  options: GraphToOpen & { readonly files: FolderFiles },
): Promise<Decoder> {
  const { backend, contextLength, engine, files, path } = options;
  const elementBytes = (dtype: "float32" | "float16") =>
    dtype === "float16" && backend.kind === "webgpu" ? 2 : 4;
  const limits = choosePagedLimits(cut, {
    contextLength,
    settings: engine,
    maxBufferBytes: backend.maxBufferBytes,
    elementBytes,
  });
  // Weights are mapped from disk, or in buffers shared by the segments.
  const sharesWeights = backend.runtime === "native" || backend.kind === "webgpu";
  requireMemory(needsOfCut(cut, limits, { elementBytes, sharesWeights }), {
    backend,
    availableBytes: await readAvailableBytes(),
    otherDtypes: await weighOtherDtypes(options),
  });
  const onProgress = (fraction: number) =>
    options.onProgress({ what: `loading ${path}`, fraction });
  return openPagedDecoder({ ...options, backend, cut, files, limits, onProgress });
}

async function openWhole(
  model: ModelProto,
  options: GraphToOpen & { readonly files: FolderFiles },
): Promise<Decoder> {
  const { backend, contextLength, files, folder, path } = options;
  options.onProgress({ what: `loading ${path}` });
  try {
    return await WholeDecoder.load({
      backend,
      model,
      files,
      contextLength,
      vocabSize: widthOfLogits(model) ?? vocabSizeOf(folder),
      openEmbedding: options.openEmbedding,
    });
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
