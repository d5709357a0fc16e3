/**
 * The decoder of a picture-reading model: cut, so that answers of any age share a step, and whole where its graph or the
 * device does not allow that.
 *
 * @module
 */
import type { Backend } from "../../backend/backend.ts";
import { log } from "../../log.ts";
import { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import { openCutDecoder } from "../encoder_decoder/cut_decoder_load.ts";
import type { Json, ModelFolder } from "../../hub/model_folder.ts";
import { MergedDecoder } from "../encoder_decoder/merged_decoder.ts";
import type { LoadProgress } from "../progress.ts";

/** How to open it. */
export interface OcrDecoderOptions {
  readonly backend: Backend;
  readonly onProgress: (progress: LoadProgress) => void;
  /** Of the graph, in the folder. */
  readonly path: string;
  /** The folder's configuration, merged as `generate()` does it. */
  readonly config: Json;
  /** Most tokens of an answer, its prompt included. */
  readonly maxTokens: number;
  /** Most answers at a time. */
  readonly maxRows: number;
  /** Places of the encoder's output, where all pictures have as many. */
  readonly numPlaces: number | undefined;
}

/** Memory for the keys and values of pictures, unless one needs more. */
const PICTURE_BYTES = 2 ** 29;

/** @throws {StartupError} when the graph is not as Optimum exports it. */
export async function openOcrDecoder(
  folder: ModelFolder,
  options: OcrDecoderOptions,
): Promise<CutDecoder | MergedDecoder> {
  const { backend, onProgress, path, config, numPlaces, maxTokens } = options;
  onProgress({ what: `loading ${path}` });
  if (numPlaces !== undefined) {
    const maxRows = Math.min(options.maxRows, fittingRows(config, numPlaces));
    const opened = await openCutDecoder(folder, path, {
      backend,
      contextLength: maxTokens,
      numPlaces,
      maxRows,
      maxInputs: maxRows,
    });
    if (opened instanceof CutDecoder) return opened;
    log.warn("the graph is not cut: pictures that begin at different times take turns", {
      graph: path,
      reason: opened.refused,
    });
  }
  return await MergedDecoder.open(folder, { path, backend });
}

/** Pictures whose keys and values, one pair for each place and layer, fit into memory together. */
function fittingRows(config: Json, numPlaces: number): number {
  const size = (name: string, otherwise: number) => {
    const value = config[name];
    return typeof value === "number" ? value : otherwise;
  };
  const perPlace = 2 * Float32Array.BYTES_PER_ELEMENT * size("d_model", 1024) *
    size("decoder_layers", 12);
  return Math.max(1, Math.floor(PICTURE_BYTES / (perPlace * numPlaces)));
}
