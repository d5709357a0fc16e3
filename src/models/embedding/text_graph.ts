/**
 * The graph of an embedding model or reranker: its dtype, and whether it is a decoder.
 *
 * @module
 */
import { join } from "node:path";
import type { Dtype } from "../../config.ts";
import { FolderFiles } from "../../onnx/file/external_data.ts";
import type { ModelProto } from "../../onnx/file/proto.ts";
import { readModel } from "../../onnx/file/proto_read.ts";
import type { DecoderLoadOptions } from "../decoder.ts";

/** How to load an embedding model or reranker. */
export type TextLoadOptions = DecoderLoadOptions;

/** A graph without its weights. */
export interface TextGraph extends AsyncDisposable {
  readonly model: ModelProto;
  readonly dtype: Dtype;
  /** In the folder: `onnx/model.onnx`. */
  readonly path: string;
  readonly files: FolderFiles;
}

/** Reads a folder's graph. */
export async function readTextGraph(
  { folder, graphs, onProgress }: TextLoadOptions,
): Promise<TextGraph> {
  const { path, dtype } = graphs.main;
  onProgress({ what: `reading ${path}` });
  const files = new FolderFiles(join(folder.path, "onnx"));
  const model = await readModel(files, path.slice(path.lastIndexOf("/") + 1));
  return { model, dtype, path, files, [Symbol.asyncDispose]: () => files[Symbol.asyncDispose]() };
}

/** Whether the graph takes past keys and values. */
export function isDecoder({ graph }: ModelProto): boolean {
  return graph.inputs.some(({ name }) => name.startsWith("past_key_values."));
}
