/**
 * Reads and opens the graphs of a model folder.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { FolderFiles } from "../../graph/file/external_data.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { readModel } from "../../graph/file/proto_read.ts";
import type { GraphSession } from "../../device/ort/ort.ts";
import type { OpenContext } from "./open_context.ts";
import type { ChosenGraph } from "./graph_choice.ts";

export type GraphContext = Pick<OpenContext, "folder" | "graphs" | "backend" | "onProgress">;

/** A graph without its weights, which are read from its files when a session is opened. */
export interface GraphFile extends ChosenGraph, AsyncDisposable {
  readonly model: ModelProto;
  /** Its own file, and those with external data; open until it is disposed of. */
  readonly files: FolderFiles;
}

export const EMBEDDING = "embed_tokens";

/**
 * Reads a graph.
 *
 * @param name the main one if absent.
 * @throws {StartupError} when the folder has no such graph.
 */
export async function readGraph(
  { folder, graphs, onProgress }: Pick<GraphContext, "folder" | "graphs" | "onProgress">,
  name?: string,
): Promise<GraphFile> {
  const chosen = name === undefined ? graphs.main : graphs.of(name);
  const { path } = chosen;
  onProgress({ what: `loading ${path}` });
  await using opened = new AsyncDisposableStack();
  const files = opened.use(new FolderFiles(join(folder.path, dirname(path)), folder.path));
  const model = await readModel(files, basename(path));
  const kept = opened.move();
  return { ...chosen, model, files, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Opens a graph as it is. @throws {StartupError} when the folder has no such graph. */
export async function openGraph(name: string, context: GraphContext): Promise<GraphSession> {
  await using graph = await readGraph(context, name);
  return await context.backend.openModel(graph.model, graph.files);
}

/** Opens the graph of token embeddings, whose ids must be on the CPU. */
export async function openEmbeddingGraph(context: GraphContext): Promise<GraphSession> {
  await using graph = await readGraph(context, EMBEDDING);
  return await context.backend.openEmbedding(graph.model, graph.files);
}
