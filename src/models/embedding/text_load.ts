/**
 * Loads what runs the texts of embedding models and rerankers: an encoder with dynamic batching, or a decoder in the
 * paged engine.
 *
 * @module
 */
import type { Dtype } from "../../config.ts";
import type { ModelProto as Graph } from "../../onnx/file/proto.ts";
import { loadDecoderTexts } from "./decoder_texts_load.ts";
import { maxTokensOf } from "./encoder_limits.ts";
import { type EncoderForm, loadEncoder } from "./encoder_load.ts";
import { EncoderTokenizer } from "./encoder_tokenizer.ts";
import { isDecoder, readTextGraph, type TextLoadOptions } from "./text_graph.ts";
import type { TextRunner } from "./text_runner.ts";

/** How to prepare a graph, as encoder or decoder; either throws a `StartupError` for an unsuitable one. */
export interface TextForms {
  encoder(graph: Graph, tokenizer: EncoderTokenizer): EncoderForm;
  /** The wanted elements of each row of a decoder; all if `undefined`. */
  decoder(tokenizer: EncoderTokenizer): readonly number[] | undefined;
}

/** Loaded texts; the caller owns the runner. */
export interface LoadedTexts {
  readonly texts: TextRunner;
  /** Elements of a row. */
  readonly width: number;
  readonly tokenizer: EncoderTokenizer;
  /** Most tokens of one text; no limit if absent. */
  readonly maxTokens: number | undefined;
  readonly dtype: Dtype;
  readonly isDecoder: boolean;
}

/** Loads a folder. @throws {StartupError} when it lacks what the model needs. */
export async function loadTexts(
  options: TextLoadOptions,
  forms: TextForms,
): Promise<LoadedTexts> {
  const { folder } = options;
  options.onProgress({ what: "reading the tokenizer" });
  const tokenizer = await EncoderTokenizer.load(folder);
  const maxTokens = await maxTokensOf(folder);
  await using graph = await readTextGraph(options);
  const { dtype } = graph;
  if (!isDecoder(graph.model)) {
    const form = forms.encoder(graph.model, tokenizer);
    const loaded = await loadEncoder(graph, form, { ...options, tokenizer, maxTokens });
    return { ...loaded, tokenizer, dtype, isDecoder: false };
  }
  const loaded = await loadDecoderTexts(options, forms.decoder(tokenizer));
  return {
    ...loaded,
    tokenizer,
    maxTokens: Math.min(loaded.maxTokens, maxTokens ?? Infinity),
    isDecoder: true,
  };
}
