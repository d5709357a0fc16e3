/**
 * From a merged decoder in a model folder to one that is cut.
 *
 * @module
 */
import { join } from "node:path";
import { FolderFiles } from "../../onnx/external_data.ts";
import { readModel } from "../../onnx/proto_read.ts";
import { CutDecoder, type CutDecoderOptions, divideMerged } from "./cut_decoder.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";

/** Opens the graph at `path` in the folder. @returns in one sentence why it is not cut, where it is not. */
export async function openCutDecoder(
  folder: ModelFolder,
  path: string,
  options: Omit<CutDecoderOptions, "files">,
): Promise<CutDecoder | { readonly refused: string }> {
  await using files = new FolderFiles(join(folder.path, "onnx"));
  const merged = await readModel(files, path.slice(path.lastIndexOf("/") + 1));
  const graphs = divideMerged(merged);
  if (graphs === undefined) return { refused: "It is not merged of two decoders." };
  try {
    return await CutDecoder.open(graphs, { ...options, files });
  } catch (error) {
    if (error instanceof RangeError) return { refused: error.message };
    throw error;
  }
}
