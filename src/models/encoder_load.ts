/**
 * Loads an encoder with dynamic batching around it.
 *
 * @module
 */
import { log } from "../log.ts";
import type { Model } from "../onnx/proto.ts";
import { splitEncoder } from "../onnx/split_encoder.ts";
import { openChangedGraph } from "./changed_graph.ts";
import { type BatchEncoder, Encoder } from "./encoder.ts";
import type { EncoderTokenizer } from "./encoder_tokenizer.ts";
import { PackedEncoder, type TextSummary } from "./packed_encoder.ts";
import { type PoolingMode, poolingTail } from "./pooling.ts";
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
  /** How it would run without padding; or in words why it cannot. */
  readonly packing: Packing | string;
}

/** The graph before it was given anything for texts as a whole. */
export interface Packing {
  readonly model: Model;
  /** Its one output: f32, a row per token, or what it makes of each text's first token. */
  readonly output: string;
  readonly summary: TextSummary;
}

/** How to load an encoder. */
export interface EncoderLoadOptions extends TextLoadOptions {
  readonly tokenizer: EncoderTokenizer;
  /** Most tokens of one text; a default where the model has no limit. */
  readonly maxTokens: number | undefined;
}

/** Where the folder gives no limit. */
const DEFAULT_LONGEST_TEXT = 8192;

/** Opens the graph in its new form. @throws {StartupError} when it wants inputs that are not known. */
export async function loadEncoder(
  graph: TextGraph,
  form: EncoderForm,
  options: EncoderLoadOptions,
): Promise<{ texts: TextRunner; width: number; maxTokens: number | undefined }> {
  options.onProgress({ what: `loading ${graph.path}` });
  const opened = await openPacked(graph, form.packing, options) ??
    { encoder: await openPadded(graph, form, options), maxTokens: options.maxTokens };
  const { encoder, maxTokens } = opened;
  const texts = new TextBatcher(encoder, options.engine.maxBatchTokens);
  return { texts, width: encoder.width, maxTokens };
}

/** Opens the graph cut at its attentions; `undefined` when that cannot be. */
async function openPacked(
  { files }: TextGraph,
  packing: Packing | string,
  { backend, tokenizer: { padTokenId }, maxTokens = DEFAULT_LONGEST_TEXT }: EncoderLoadOptions,
): Promise<{ encoder: BatchEncoder; maxTokens: number } | undefined> {
  const refuse = (reason: string) => {
    log.info("texts are padded to the longest of their batch", { reason });
    return undefined;
  };
  if (typeof packing === "string") return refuse(packing);
  const { model, output: wanted, summary } = packing;
  const result = splitEncoder(model, {
    wanted,
    tail: summary.kind === "sums" ? poolingTail : undefined,
    padTokenId,
    contextLength: maxTokens,
  });
  if ("refused" in result) return refuse(result.refused);
  const { cut } = result;
  const longestText = Math.min(maxTokens, cut.maxPositions ?? Infinity);
  try {
    const encoder = await PackedEncoder.open(cut, { backend, files, summary, longestText });
    return { encoder, maxTokens: longestText };
  } catch (error) {
    if (error instanceof RangeError) return refuse(error.message);
    throw error;
  }
}

async function openPadded(
  { files }: TextGraph,
  { model, output, poolingModes }: EncoderForm,
  { backend, tokenizer: { padTokenId } }: EncoderLoadOptions,
): Promise<BatchEncoder> {
  const session = await openChangedGraph(model, { files, backend });
  return await Encoder.create({ backend, session, output, poolingModes, padTokenId });
}
