/**
 * The graph of a model of texts: which dtype of it, and whether it is a decoder.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../../backend/backend.ts";
import { deviceClassOf } from "../../backend/device_class.ts";
import type { Dtype, EngineSettings } from "../../config.ts";
import { FolderFiles } from "../../onnx/external_data.ts";
import type { Model } from "../../onnx/proto.ts";
import { readModel } from "../../onnx/proto_read.ts";
import type { LoadProgress } from "../progress.ts";
import { chooseDtype, graphFile, type ModelFolder } from "../../hub/model_folder.ts";

const GRAPH = "model";

/** How to load a model of texts. */
export interface TextLoadOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  readonly engine: EngineSettings;
  readonly onProgress: (progress: LoadProgress) => void;
}

/** A graph that was read, its weights not. */
export interface TextGraph extends AsyncDisposable {
  readonly model: Model;
  readonly dtype: Dtype;
  /** In the folder: `onnx/model.onnx`. */
  readonly path: string;
  readonly files: FolderFiles;
}

/**
 * Reads a folder's graph in the dtype asked for, or the one that suits the backend best.
 *
 * @throws {StartupError} when there is no such graph.
 */
export async function readTextGraph(
  folder: ModelFolder,
  options: TextLoadOptions,
): Promise<TextGraph> {
  const { backend } = options;
  const device = backend.kind === "cpu" ? "cpuInBatches" : deviceClassOf(backend);
  const dtype = chooseDtype(folder, { graph: GRAPH, device, dtype: options.dtype });
  const path = graphFile(GRAPH, dtype);
  options.onProgress({ what: `reading ${path}` });
  const files = new FolderFiles(join(folder.path, "onnx"));
  const model = await readModel(files, path.slice(path.lastIndexOf("/") + 1));
  return { model, dtype, path, files, [Symbol.asyncDispose]: () => files[Symbol.asyncDispose]() };
}

/** Whether the graph takes keys and values of tokens that went before. */
export function isDecoder({ graph }: Model): boolean {
  return graph.inputs.some(({ name }) => name.startsWith("past_key_values."));
}
