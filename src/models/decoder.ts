/**
 * The decoder of a model folder.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import { deviceClassOf } from "../backend/device_class.ts";
import type { Dtype, EngineSettings } from "../config.ts";
import type { Decoder } from "../decoder/decoder.ts";
import { openPagedDecoder } from "../decoder/open_paged_decoder.ts";
import { choosePagedLimits } from "../decoder/paged_limits.ts";
import { UnsupportedGraphError, WholeDecoder } from "../decoder/whole_decoder.ts";
import { StartupError } from "../errors.ts";
import { log } from "../log.ts";
import { expandQuantized } from "../onnx/expand_quantized.ts";
import { FolderFiles } from "../onnx/external_data.ts";
import type { GraphCut } from "../onnx/graph_cut.ts";
import type { ExternalData, Session, ValueInfo } from "../onnx/ort.ts";
import { readModel } from "../onnx/proto_read.ts";
import { splitGraph } from "../onnx/split.ts";
import { openCompanion } from "./companion_graph.ts";
import type { LoadProgress } from "./progress.ts";
import { readAvailableBytes } from "./available_memory.ts";
import {
  chooseDtype,
  dtypesOf,
  externalDataFiles,
  graphFile,
  type ModelFolder,
} from "../hub/model_folder.ts";
import { needsOfCut, requireMemory, weighOtherDtypes } from "./memory.ts";
import { contextLengthOf, vocabSizeOf } from "./text_sizes.ts";

/** Names of the graph, the first that is there. */
const TEXT_GRAPHS = ["model", "decoder_model_merged"] as const;
const EMBEDDING_GRAPH = "embed_tokens";

/** How to load a decoder. */
export interface DecoderLoadOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  readonly engine: EngineSettings;
  readonly onProgress: (progress: LoadProgress) => void;
}

/** A decoder and what was chosen for it. */
export interface LoadedDecoder {
  readonly decoder: Decoder;
  readonly dtype: Dtype;
  /** What its tokens become first, where a graph of its own does that. */
  readonly embeddings: ValueInfo | undefined;
}

/**
 * Loads a folder's decoder in the dtype asked for, or the one that suits the backend best.
 *
 * @throws {StartupError} when there is no such graph, or `config.json` lacks a size.
 */
export async function loadDecoder(
  folder: ModelFolder,
  options: DecoderLoadOptions,
): Promise<LoadedDecoder> {
  const { backend, onProgress } = options;
  const graph = TEXT_GRAPHS.find((name) => dtypesOf(folder, name).length > 0) ?? TEXT_GRAPHS[0];
  const dtype = chooseDtype(folder, {
    graph,
    device: deviceClassOf(backend),
    dtype: options.dtype,
  });
  const path = graphFile(graph, dtype);

  const fileName = path.slice(path.lastIndexOf("/") + 1);
  await using files = new FolderFiles(join(folder.path, "onnx"));
  onProgress({ what: `reading ${path}` });
  const contextLength = contextLengthOf(folder);
  const model = await readModel(files, fileName);
  const result = splitGraph(backend.kind === "cpu" ? expandQuantized(model) : model, {
    contextLength,
  });
  let embeddings: ValueInfo | undefined;
  const openEmbedding = async () => {
    const session = await openCompanion(folder, EMBEDDING_GRAPH, { ...options, dtype });
    embeddings = session.outputs[0];
    return session;
  };
  const toOpen = { ...options, dtype, folder, graph, contextLength, path, openEmbedding };
  let reason: string;
  if ("refused" in result) reason = result.refused;
  else {
    try {
      return { decoder: await openPaged(result.cut, { ...toOpen, files }), dtype, embeddings };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      reason = error.message;
    }
  }
  log.warn("the graph is not cut: one sequence at a time", { graph: path, reason });
  return { decoder: await openWhole(toOpen), dtype, embeddings };
}

interface GraphToOpen extends DecoderLoadOptions {
  readonly dtype: Dtype;
  readonly folder: ModelFolder;
  readonly graph: string;
  readonly path: string;
  readonly contextLength: number;
  readonly openEmbedding: () => Promise<Session>;
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
  requireMemory(needsOfCut(cut, limits, elementBytes), {
    backend,
    availableBytes: await readAvailableBytes(),
    otherDtypes: await weighOtherDtypes(options),
  });
  const onProgress = (fraction: number) =>
    options.onProgress({ what: `loading ${path}`, fraction });
  return openPagedDecoder({ ...options, backend, cut, files, limits, onProgress });
}

async function openWhole(options: GraphToOpen): Promise<Decoder> {
  const { backend, contextLength, folder, path } = options;
  options.onProgress({ what: `loading ${path}` });
  try {
    return await WholeDecoder.load({
      backend,
      model: await Deno.readFile(join(folder.path, path)),
      externalData: await readExternalData(folder, path),
      contextLength,
      vocabSize: vocabSizeOf(folder),
      openEmbedding: options.openEmbedding,
    });
  } catch (error) {
    if (!(error instanceof UnsupportedGraphError)) throw error;
    throw new StartupError(`${folder.path}/${path}: ${error.message}`, { cause: error });
  }
}

async function readExternalData(folder: ModelFolder, graphPath: string): Promise<ExternalData[]> {
  const read: ExternalData[] = [];
  for (const file of externalDataFiles(folder, graphPath)) {
    const data = await Deno.readFile(join(folder.path, file));
    read.push({ path: file.slice(file.lastIndexOf("/") + 1), data });
  }
  return read;
}
