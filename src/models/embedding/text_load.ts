/**
 * Loads what runs the texts of embedding models and rerankers: an encoder with dynamic batching, or a decoder in the
 * paged engine.
 *
 * @module
 */
import type { Dtype } from "../../config.ts";
import { type Json, type ModelFolder, readOptionalJson } from "../../hub/model_folder.ts";
import { log } from "../../log.ts";
import { computeFirstRows } from "../../onnx/cut/first_token_rows.ts";
import { countPositions, splitEncoder } from "../../onnx/cut/split_encoder.ts";
import type { ModelProto as Graph } from "../../onnx/file/proto.ts";
import type { DecoderLoadOptions } from "../decoder_load.ts";
import { type GraphFile, readGraph } from "../graph_file.ts";
import { type BatchEncoder, Encoder, type EncoderGraph } from "./encoder.ts";
import { EncoderTokenizer } from "./encoder_tokenizer.ts";
import { PackedEncoder, type TextSummary } from "./packed_encoder.ts";
import { poolingTail } from "./pooling.ts";
import { TextBatcher } from "./text_batcher.ts";
import type { TextRunner } from "./text_model.ts";

/** How to prepare a graph, as encoder or decoder; either throws a `StartupError` for an unsuitable one. */
interface TextForms {
  encoder(graph: Graph, tokenizer: EncoderTokenizer): EncoderForm;
  /** The wanted elements of each row of a decoder; all if `undefined`. */
  decoder(tokenizer: EncoderTokenizer): readonly number[] | undefined;
}

/** The prepared graph. */
export interface EncoderForm extends EncoderGraph {
  /** How to run it without padding; or why not. */
  readonly packing: Packing | string;
}

/** The graph before pooling was added. */
interface Packing {
  readonly model: Graph;
  /** Its one output: f32, a row per token, or what it makes of each text's first token. */
  readonly output: string;
  readonly summary: TextSummary;
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
}

/** Where the folder gives no limit. */
const DEFAULT_LONGEST_TEXT = 8192;

/**
 * Longest texts that a graph runs whole on the CPU, where ONNX Runtime's attention is faster than Hearth's by more than
 * the padding costs, but holds the weights of all pairs of tokens.
 */
const LONGEST_WHOLE_TEXT = 1024;

/** Loads a folder. @throws {StartupError} when it lacks what the model needs. */
export async function loadTexts(
  options: DecoderLoadOptions,
  forms: TextForms,
): Promise<LoadedTexts> {
  const { folder, engine: { maxBatchTokens } } = options;
  options.onProgress({ what: "reading the tokenizer" });
  const tokenizer = await EncoderTokenizer.load(folder);
  const maxTokens = await maxTokensOf(folder);
  await using graph = await readGraph(options);
  const isDecoder = graph.model.graph.inputs.some(({ name }) =>
    name.startsWith("past_key_values.")
  );
  const common = { tokenizer, dtype: graph.dtype };
  if (isDecoder) {
    // Imported on demand: encoders, which most are, need none of the engine and are ready earlier without.
    const { loadDecoderTexts } = await import("./decoder_texts.ts");
    const loaded = await loadDecoderTexts(options, forms.decoder(tokenizer));
    return { ...common, ...loaded, maxTokens: Math.min(loaded.maxTokens, maxTokens ?? Infinity) };
  }
  const form = forms.encoder(graph.model, tokenizer);
  const { padTokenId } = tokenizer;
  const opened = await openEncoder(graph, form, { ...options, padTokenId, maxTokens });
  const { encoder } = opened;
  const texts = new TextBatcher({ encoder, maxBatchTokens });
  return { ...common, texts, width: encoder.width, maxTokens: opened.maxTokens };
}

/** Opens the graph cut at its attentions where that is faster and possible, and whole where not. */
async function openEncoder(
  { files }: GraphFile,
  form: EncoderForm,
  { backend, padTokenId, maxTokens }: Pick<DecoderLoadOptions, "backend"> & {
    readonly padTokenId: number;
    readonly maxTokens: number | undefined;
  },
): Promise<{ readonly encoder: BatchEncoder; readonly maxTokens: number | undefined }> {
  const openWhole = () => {
    const model = computeFirstRows(form.model, { wanted: form.output, padTokenId });
    return Encoder.open({ ...form, model }, { backend, files, padTokenId });
  };
  if (backend.runtime === "native") {
    const longestText = Math.min(maxTokens ?? Infinity, countPositions(form.model, padTokenId));
    if (longestText <= LONGEST_WHOLE_TEXT) {
      return { encoder: await openWhole(), maxTokens: longestText };
    }
  }
  const packed = splitPacked(form.packing, {
    padTokenId,
    contextLength: maxTokens ?? DEFAULT_LONGEST_TEXT,
  });
  let reason = packed;
  if (typeof packed !== "string") {
    const { cut, summary, longestText } = packed;
    try {
      const encoder = await PackedEncoder.open(cut, { backend, files, summary, longestText });
      return { encoder, maxTokens: longestText };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      reason = error.message;
    }
  }
  log.info("texts are padded to the longest of their batch", { reason });
  return { encoder: await openWhole(), maxTokens };
}

/** The graph cut for packed texts; or why it cannot be. */
function splitPacked(
  packing: Packing | string,
  options: { readonly padTokenId: number; readonly contextLength: number },
) {
  if (typeof packing === "string") return packing;
  const { model, output: wanted, summary } = packing;
  const tail = summary.kind === "sums" ? poolingTail : undefined;
  const result = splitEncoder(model, { ...options, wanted, tail });
  if ("refused" in result) return result.refused;
  const { cut } = result;
  const longestText = Math.min(options.contextLength, cut.maxPositions ?? Infinity);
  return { cut, summary, longestText };
}

/** Models that number positions from after the padding token's id. */
const POSITIONS_AFTER_PADDING = new Set([
  "roberta",
  "xlm-roberta",
  "xlm-roberta-xl",
  "camembert",
  "mpnet",
  "longformer",
]);

/** Tokenizers write sizes from here on for no limit. */
const NO_LIMIT = 1e9;

/** Most tokens of one input, special ones included; `undefined` where the folder gives no limit. */
export async function maxTokensOf(folder: ModelFolder): Promise<number | undefined> {
  const sentence = await readOptionalJson(folder, "sentence_bert_config.json");
  const tokenizer = await readOptionalJson(folder, "tokenizer_config.json");
  const limits = [
    positionsOf(folder.config),
    sentence["max_seq_length"],
    tokenizer["model_max_length"],
  ].filter((limit) => typeof limit === "number" && limit > 0 && limit < NO_LIMIT);
  return limits.length === 0 ? undefined : Math.min(...limits as number[]);
}

function positionsOf(config: Json): unknown {
  const positions = config["max_position_embeddings"] ?? config["n_positions"];
  if (typeof positions !== "number") return undefined;
  if (!POSITIONS_AFTER_PADDING.has(String(config["model_type"]))) return positions;
  const padding = config["pad_token_id"];
  return positions - (typeof padding === "number" ? padding : 1) - 1;
}
