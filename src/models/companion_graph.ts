/**
 * The graphs beside a model's main one: embeddings, encoders.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import { deviceClassOf } from "../backend/device_class.ts";
import type { Dtype } from "../config.ts";
import { expandQuantized } from "../onnx/expand_quantized.ts";
import { FolderFiles } from "../onnx/external_data.ts";
import type { Session } from "../onnx/ort.ts";
import { readModel } from "../onnx/proto_read.ts";
import { openChangedGraph } from "./changed_graph.ts";
import { chooseDtype, dtypesOf, graphFile, type ModelFolder } from "../hub/model_folder.ts";
import type { LoadProgress } from "./progress.ts";

/** How to open. */
export interface CompanionOptions {
  readonly backend: Backend;
  /** That of the main graph, taken where the companion comes in it too. */
  readonly dtype: Dtype;
  readonly onProgress: (progress: LoadProgress) => void;
}

/**
 * Opens a companion in the main graph's dtype, or else the one that suits the backend best.
 *
 * @throws {StartupError} when the folder has no such graph.
 */
export async function openCompanion(
  folder: ModelFolder,
  graph: string,
  { backend, dtype, onProgress }: CompanionOptions,
): Promise<Session> {
  const chosen = chooseDtype(folder, {
    graph,
    device: deviceClassOf(backend),
    dtype: dtypesOf(folder, graph).includes(dtype) ? dtype : undefined,
  });
  const path = graphFile(graph, chosen);
  onProgress({ what: `loading ${path}` });
  await using files = new FolderFiles(join(folder.path, "onnx"));
  const model = await readModel(files, path.slice(path.lastIndexOf("/") + 1));
  return await openChangedGraph(backend.kind === "cpu" ? expandQuantized(model) : model, {
    files,
    backend,
  });
}
