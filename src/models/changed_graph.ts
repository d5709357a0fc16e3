/**
 * Opens graphs that were changed after they were read.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import type { FolderFiles } from "../onnx/external_data.ts";
import type { Session } from "../onnx/ort.ts";
import type { Model } from "../onnx/proto.ts";

/** Opens a graph, with its weights where they lie among `files`. */
export async function openChangedGraph(
  model: Model,
  { files, backend }: { files: FolderFiles; backend: Backend },
): Promise<Session> {
  return await backend.openModel(model, files);
}
