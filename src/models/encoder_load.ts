/**
 * Loads an encoder with dynamic batching around it.
 *
 * @module
 */
import type { Model } from "../onnx/proto.ts";
import { openChangedGraph } from "./changed_graph.ts";
import { Encoder } from "./encoder.ts";
import type { EncoderTokenizer } from "./encoder_tokenizer.ts";
import type { PoolingMode } from "./pooling.ts";
import { TextBatcher } from "./text_batcher.ts";
import type { TextGraph, TextLoadOptions } from "./text_graph.ts";
import type { TextRunner } from "./text_runner.ts";

/** What becomes of the graph. */
export interface EncoderForm {
  readonly model: Model;
  /** Its one output: f32, one row per text. */
  readonly output: string;
  /** What it was given for pooling, where it was. */
  readonly poolingModes?: readonly PoolingMode[] | undefined;
}

/** Opens the graph in its new form. @throws {StartupError} when it wants inputs that are not known. */
export async function loadEncoder(
  { path, files }: TextGraph,
  form: EncoderForm,
  options: TextLoadOptions & { readonly tokenizer: EncoderTokenizer },
): Promise<{ texts: TextRunner; width: number }> {
  const { backend, engine, tokenizer: { padTokenId } } = options;
  options.onProgress({ what: `loading ${path}` });
  const session = await openChangedGraph(form.model, { files, backend });
  const { output, poolingModes } = form;
  const encoder = await Encoder.create({ backend, session, output, poolingModes, padTokenId });
  return { texts: new TextBatcher(encoder, engine.maxBatchTokens), width: encoder.width };
}
