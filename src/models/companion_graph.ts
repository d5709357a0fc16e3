/**
 * The graphs beside a model's main one: embeddings, encoders.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { FolderFiles } from "../onnx/file/external_data.ts";
import type { GraphSession } from "../onnx/runtime/ort.ts";
import { readModel } from "../onnx/file/proto_read.ts";
import type { OpenContext } from "./family.ts";

/** The context in which companions are opened. */
export type CompanionContext = Pick<OpenContext, "folder" | "graphs" | "backend" | "onProgress">;

const EMBEDDING = "embed_tokens";

/** Opens a companion. @throws {StartupError} when the folder has no such graph. */
export async function openCompanion(
  name: string,
  context: CompanionContext,
): Promise<GraphSession> {
  const { folder, graphs, backend, onProgress } = context;
  const { path } = graphs.of(name);
  onProgress({ what: `loading ${path}` });
  await using files = new FolderFiles(join(folder.path, dirname(path)));
  const model = await readModel(files, basename(path));
  return name === EMBEDDING
    ? await backend.openEmbedding(model, files)
    : await backend.openModel(model, files);
}

/** Opens the embeddings' graph, whose token ids must be on the CPU. */
export function openEmbeddingGraph(context: CompanionContext): Promise<GraphSession> {
  return openCompanion(EMBEDDING, context);
}
