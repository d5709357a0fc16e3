/**
 * From a merged decoder in a model folder to one that the engine runs: cut if its graph and the device allow that, else
 * whole.
 *
 * @module
 */
import { EncoderDecoder } from "../decoder/encoder_decoder.ts";
import { type EncoderDecoderOptions, openEncoderDecoder } from "../decoder/open_encoder_decoder.ts";
import { WholeEncoderDecoder } from "../decoder/whole_encoder_decoder.ts";
import { log } from "../log.ts";
import { divideMerged } from "../onnx/cut/merged_decoder.ts";
import { type GraphContext, readGraph } from "./graph_file.ts";

interface EncoderDecoderLoadOptions<Input extends object>
  extends Omit<EncoderDecoderOptions<Input>, "files" | "backend" | "numPositions">, GraphContext {
  /** Most positions of the encoder's output for one input; if unknown the graph is not cut. */
  readonly numPositions: number | undefined;
  /** Of the uncut graph, which does not declare it. */
  readonly vocabSize: number;
}

/** Opens the main graph. @throws {StartupError} when it is not as Optimum exports it. */
export async function loadEncoderDecoder<Input extends object>(
  options: EncoderDecoderLoadOptions<Input>,
): Promise<EncoderDecoder<Input> | WholeEncoderDecoder<Input>> {
  await using graph = await readGraph(options);
  const { model: merged, files, path } = graph;
  const opened = await openCut();
  if (opened instanceof EncoderDecoder) {
    log.info("the graph is cut: sequences share steps of a paged decoder", { graph: path });
    return opened;
  }
  log.warn("the graph is not cut: one sequence at a time", { graph: path, reason: opened.refused });
  return await WholeEncoderDecoder.open(merged, { ...options, path, files });

  async function openCut(): Promise<EncoderDecoder<Input> | { readonly refused: string }> {
    const parts = divideMerged(merged);
    if (parts === undefined) return { refused: "It is not merged of two decoders." };
    const { numPositions } = options;
    if (numPositions === undefined) {
      return { refused: "Inputs of different sizes have different numbers of positions." };
    }
    try {
      return await openEncoderDecoder(parts, { ...options, numPositions, files });
    } catch (error) {
      if (error instanceof RangeError) return { refused: error.message };
      throw error;
    }
  }
}
