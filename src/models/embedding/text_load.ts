/**
 * Loads what runs the texts of embedding models and rerankers: an encoder with dynamic batching, or a decoder in the
 * paged engine.
 *
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import { type Json, type ModelFolder, numberAt, readOptionalJson } from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { computeFirstRows } from "../../graph/cut/picked_token.ts";
import { countPositions, splitEncoder } from "../../graph/cut/split.ts";
import type { ModelProto as Graph } from "../../graph/file/proto.ts";
import type { DecoderLoadOptions } from "../folder/decoder_load.ts";
import { type GraphFile, keepOutput, readGraph } from "../folder/graph_file.ts";
import { BagEncoder, isBagGraph, MAX_BAG_TOKENS, PaddedEncoder } from "./whole_encoders.ts";
import { EncoderTokenizer } from "./encoder_tokenizer.ts";
import { PackedEncoder, toSummary } from "./packed_encoder.ts";
import { POOLED_OUTPUT, poolingTail, poolTexts, type TextOutput } from "./pooling.ts";
import { type Encoder, TextBatcher } from "./text_batcher.ts";
import type { LoadedTexts } from "./text_model.ts";

/** A folder's graph, before it is decided how its rows are read. */
interface TextGraph {
  readonly model: Graph;
  readonly tokenizer: EncoderTokenizer;
  /** Whether it has a cache of keys and values. */
  readonly isDecoder: boolean;
}

/**
 * What is read as a text's vector: an output of an encoder; or, in a decoder's output for the last token, the elements
 * at `columns` (all if absent).
 */
type RowSource = { readonly output: TextOutput } | { readonly columns?: readonly number[] };

/** The limit when the folder gives none. */
const DEFAULT_LONGEST_TEXT = 8192;

/**
 * Longest text of a graph that runs whole on the CPU. There ONNX Runtime's attention is faster than Hearth's by more
 * than padding costs, but it needs memory for the weights of all pairs of tokens.
 */
const LONGEST_WHOLE_TEXT = 1024;

/**
 * Loads a folder.
 *
 * @param chooseRows decides what to read of the graph; it throws a `StartupError` for an unsuitable graph.
 * @throws {StartupError} when the folder lacks what the model needs.
 */
export async function loadTexts<Source extends RowSource>(
  options: DecoderLoadOptions,
  chooseRows: (graph: TextGraph) => Source,
): Promise<LoadedTexts<Source>> {
  const { folder, engine: { maxBatchTokens } } = options;
  await using graph = await readGraph(options);
  const isBag = isBagGraph(graph.model);
  options.onProgress({ what: "reading the tokenizer" });
  const tokenizer = await EncoderTokenizer.load(folder, { isPlain: isBag });
  const maxTokens = isBag
    ? Math.min(numberAt(folder.config, "seq_length") ?? Infinity, MAX_BAG_TOKENS)
    : await readMaxTokens(folder);
  const isDecoder = graph.model.graph.inputs.some(({ name }) =>
    name.startsWith("past_key_values.")
  );
  const source = chooseRows({ model: graph.model, tokenizer, isDecoder });
  const common = { source, tokenizer, dtype: graph.dtype };
  if (!("output" in source)) {
    // Imported on demand: encoders, the usual case, do not need the engine and start sooner without it.
    const { loadDecoderTexts } = await import("./decoder_texts.ts");
    const loaded = await loadDecoderTexts(options, source.columns);
    return { ...common, ...loaded, maxTokens: Math.min(loaded.maxTokens, maxTokens ?? Infinity) };
  }
  const { backend } = options;
  const { padTokenId } = tokenizer;
  const opened = await openEncoder(graph, source.output, { backend, padTokenId, maxTokens });
  const { encoder } = opened;
  const texts = new TextBatcher({ encoder, maxBatchTokens });
  return { ...common, texts, width: encoder.width, maxTokens: opened.maxTokens };
}

interface EncoderOptions {
  readonly backend: Backend;
  readonly padTokenId: number;
  readonly maxTokens: number | undefined;
}

/** Opens the graph cut at its attention nodes if that is possible and faster, else whole. */
async function openEncoder(
  { model, files }: GraphFile,
  output: TextOutput,
  options: EncoderOptions,
): Promise<{ readonly encoder: Encoder; readonly maxTokens: number | undefined }> {
  const { backend, padTokenId, maxTokens } = options;
  const pooled = poolTexts(model, output);
  if (isBagGraph(model)) {
    return { encoder: await BagEncoder.open(pooled, { backend, files }), maxTokens };
  }
  const openWhole = () =>
    PaddedEncoder.open(computeFirstRows(pooled, { wanted: POOLED_OUTPUT, padTokenId }), {
      ...{ backend, files, padTokenId },
      pooling: output.pooling,
    });
  if (backend.runtime === "native") {
    const longestText = Math.min(maxTokens ?? Infinity, countPositions(pooled, padTokenId));
    if (longestText <= LONGEST_WHOLE_TEXT) {
      return { encoder: await openWhole(), maxTokens: longestText };
    }
  }
  const packed = await openPacked({ model, files }, output, options);
  if (!("refused" in packed)) return { encoder: packed.encoder, maxTokens: packed.longestText };
  log.info("texts are padded to the longest of their batch", { reason: packed.refused });
  return { encoder: await openWhole(), maxTokens };
}

/** Opens the graph cut for packed texts, or returns why that is not possible. */
async function openPacked(
  { model, files }: Pick<GraphFile, "model" | "files">,
  { name, pooling }: TextOutput,
  { backend, padTokenId, maxTokens }: EncoderOptions,
): Promise<
  | { readonly encoder: Encoder; readonly longestText: number }
  | { readonly refused: string }
> {
  const summary = toSummary(pooling);
  if (summary === undefined) {
    return { refused: "It pools by the maximum, which takes padded texts." };
  }
  const wanted = `${name}/float32`;
  const contextLength = maxTokens ?? DEFAULT_LONGEST_TEXT;
  const result = splitEncoder(keepOutput(model, name, wanted), {
    ...{ wanted, padTokenId, contextLength },
    tail: summary.kind === "sums" ? poolingTail : undefined,
  });
  if ("refused" in result) return result;
  const { cut } = result;
  const longestText = Math.min(contextLength, cut.maxPositions ?? Infinity);
  try {
    const encoder = await PackedEncoder.open(cut, { backend, files, summary, longestText });
    return { encoder, longestText };
  } catch (error) {
    if (error instanceof RangeError) return { refused: error.message };
    throw error;
  }
}

/** Models whose positions start after the padding token's id. */
const POSITIONS_AFTER_PADDING = new Set([
  "roberta",
  "xlm-roberta",
  "xlm-roberta-xl",
  "camembert",
  "mpnet",
  "longformer",
]);

/** A tokenizer's size from this on means that there is no limit. */
const NO_LIMIT = 1e9;

/** Most tokens of one input, special ones included; `undefined` if the folder gives no limit. */
export async function readMaxTokens(folder: ModelFolder): Promise<number | undefined> {
  const sentence = await readOptionalJson(folder, "sentence_bert_config.json");
  const tokenizer = await readOptionalJson(folder, "tokenizer_config.json");
  const limits = [
    readPositions(folder.config),
    // sentence-transformers puts its own length in the place of the tokenizer's.
    sentence["max_seq_length"] ?? tokenizer["model_max_length"],
  ].filter((limit) => typeof limit === "number" && limit > 0 && limit < NO_LIMIT);
  return limits.length === 0 ? undefined : Math.min(...limits as number[]);
}

function readPositions(config: Json): unknown {
  const positions = config["max_position_embeddings"] ?? config["n_positions"];
  if (typeof positions !== "number") return undefined;
  if (!POSITIONS_AFTER_PADDING.has(String(config["model_type"]))) return positions;
  const padding = config["pad_token_id"];
  return positions - (typeof padding === "number" ? padding : 1) - 1;
}
