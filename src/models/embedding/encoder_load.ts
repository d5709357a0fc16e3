/**
 * Loads an encoder with dynamic batching around it.
 *
 * @module
 */
import { log } from "../../log.ts";
import type { FolderFiles } from "../../onnx/file/external_data.ts";
import type { ModelProto } from "../../onnx/file/proto.ts";
import { countPositions, splitEncoder } from "../../onnx/cut/split_encoder.ts";
import type { BatchEncoder } from "./encoder.ts";
import { type EncoderPlan, openEncoder } from "./encoder_plan.ts";
import type { EncoderTokenizer } from "./encoder_tokenizer.ts";
import type { TextSummary } from "./packed_encoder.ts";
import { type PoolingMode, poolingTail } from "./pooling.ts";
import { TextBatcher } from "./text_batcher.ts";
import type { TextGraph, TextLoadOptions } from "./text_graph.ts";
import type { TextRunner } from "./text_runner.ts";

/** The prepared graph. */
export interface EncoderForm {
  readonly model: ModelProto;
  /** Its one output: f32, one row per text. */
  readonly output: string;
  /** The pooling added to it, if any. */
  readonly poolingModes?: readonly PoolingMode[] | undefined;
  /** How to run it without padding; or why not. */
  readonly packing: Packing | string;
}

/** The graph before pooling was added. */
export interface Packing {
  readonly model: ModelProto;
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

/**
 * Longest texts that a graph runs whole on the CPU, where ONNX Runtime's attention is faster than Hearth's by more than
 * the padding costs, but holds the weights of all pairs of tokens.
 */
const LONGEST_WHOLE_TEXT = 1024;

/** Opens the graph in its new form. @throws {StartupError} when it has unknown inputs. */
export async function loadEncoder(
  { path, files }: TextGraph,
  form: EncoderForm,
  options: EncoderLoadOptions,
): Promise<{ texts: TextRunner; width: number; maxTokens: number | undefined }> {
  const { engine: { maxBatchTokens } } = options;
  options.onProgress({ what: `loading ${path}` });
  const { encoder, maxTokens } = await openBest(files, form, options);
  return { texts: new TextBatcher({ encoder, maxBatchTokens }), width: encoder.width, maxTokens };
}

interface Opened {
  readonly encoder: BatchEncoder;
  /** Most tokens of one text. */
  readonly maxTokens: number | undefined;
}

/** Opens the graph cut at its attentions where that is faster and possible, and whole where not. */
async function openBest(
  files: FolderFiles,
  form: EncoderForm,
  { backend, tokenizer: { padTokenId }, maxTokens }: EncoderLoadOptions,
): Promise<Opened> {
  const options = { backend, files };
  const { model, output, poolingModes } = form;
  const whole: EncoderPlan = { kind: "padded", model, output, poolingModes, padTokenId };
  if (backend.runtime === "native") {
    const longestText = Math.min(maxTokens ?? Infinity, countPositions(model, padTokenId));
    if (longestText <= LONGEST_WHOLE_TEXT) {
      return { encoder: await openEncoder(whole, options), maxTokens: longestText };
    }
  }
  const packed = planPacked(form.packing, {
    padTokenId,
    maxTokens: maxTokens ?? DEFAULT_LONGEST_TEXT,
  });
  let reason = packed;
  if (typeof packed !== "string") {
    try {
      return { encoder: await openEncoder(packed, options), maxTokens: packed.longestText };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      reason = error.message;
    }
  }
  log.info("texts are padded to the longest of their batch", { reason });
  return { encoder: await openEncoder(whole, options), maxTokens };
}

/** A plan for packed texts; or why there is none. */
function planPacked(
  packing: Packing | string,
  { padTokenId, maxTokens }: { readonly padTokenId: number; readonly maxTokens: number },
): EncoderPlan & { kind: "packed" } | string {
  if (typeof packing === "string") return packing;
  const { model, output: wanted, summary } = packing;
  const tail = summary.kind === "sums" ? poolingTail : undefined;
  const result = splitEncoder(model, { wanted, tail, padTokenId, contextLength: maxTokens });
  if ("refused" in result) return result.refused;
  const { cut } = result;
  const longestText = Math.min(maxTokens, cut.maxPositions ?? Infinity);
  return { kind: "packed", cut, summary, longestText };
}
