/**
 * Loads a decoder for texts instead of completions.
 *
 * @module
 */
import { PagedDecoder } from "../../decoder/paged_decoder.ts";
import { RowDecoder } from "../../decoder/row_decoder.ts";
import { warmUp } from "../../engine/warm_up.ts";
import { StartupError } from "../../errors.ts";
import type { Dtype } from "../../config.ts";
import { loadDecoder } from "../decoder.ts";
import { DecoderTexts } from "./decoder_texts.ts";
import type { TextLoadOptions } from "./text_graph.ts";
import type { TextRunner } from "./text_runner.ts";

/** A decoder ready for texts. */
export interface LoadedDecoderTexts {
  readonly texts: TextRunner;
  readonly dtype: Dtype;
  /** Elements of a row. */
  readonly width: number;
  /** Most tokens of a text. */
  readonly maxTokens: number;
}

/**
 * Loads a folder's decoder.
 *
 * @param columns which elements of each row are wanted; all if absent.
 * @throws {StartupError} when its graph cannot be cut: decoders do not run padded batches.
 */
export async function loadDecoderTexts(
  options: TextLoadOptions,
  columns?: readonly number[],
): Promise<LoadedDecoderTexts> {
  const { backend, engine, folder } = options;
  const { decoder, dtype } = await loadDecoder(options);
  if (!(decoder instanceof PagedDecoder)) {
    await decoder.dispose();
    throw new StartupError(
      `The decoder in ${folder.path} cannot be cut at its attentions, which embedding and reranking with it need. ` +
        "The log says why; `inspect` tells more.",
    );
  }
  const rows = await RowDecoder.open(backend, decoder, columns);
  options.onProgress({ what: "warming up" });
  await warmUp(rows);
  const { contextLength, numBlocks, blockSize } = rows.limits;
  return {
    texts: new DecoderTexts(rows, engine),
    dtype,
    width: columns?.length ?? decoder.output.width,
    // The engine reserves one position for the next token.
    maxTokens: Math.min(contextLength - 1, numBlocks * blockSize),
  };
}
