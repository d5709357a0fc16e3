/**
 * The common part of embedding models and rerankers. A request is a list of texts, and each text gets a row of numbers,
 * computed by an encoder with dynamic batching or by a decoder in the paged engine.
 *
 * @module
 */
import type { Backend } from "../../device/backend.ts";
import {
  type Json,
  type ModelFolder,
  readNumber,
  readOptionalJson,
} from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { computeFirstRows } from "../../graph/cut/picked_token.ts";
import { countPositions, cutEncoder } from "../../graph/cut/cut_graph.ts";
import type { ModelProto as Graph } from "../../graph/file/proto.ts";
import type { DecoderLoadOptions } from "../folder/decoder_load.ts";
import { type GraphFile, keepOutput, readGraph } from "../folder/graph_file.ts";
import { BagEncoder, isBagGraph, MAX_BAG_TOKENS, PaddedEncoder } from "./whole_encoders.ts";
import { EncoderTokenizer } from "./encoder_tokenizer.ts";
import { PackedEncoder, toSummary } from "./packed_encoder.ts";
import { makePoolingTail, POOLED_OUTPUT, poolTexts, type TextOutput } from "./pooling.ts";
import { type Encoder, TextBatcher, type TextJob, type TextRunner } from "./text_batcher.ts";
import type { Registry } from "prom-client";
import type { Dtype } from "../../base/config.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import type { ErrorEvent } from "../task.ts";

/** A folder's graph, before it is decided which of its rows are read. */
interface TextGraph {
  readonly model: Graph;
  readonly tokenizer: EncoderTokenizer;
  /** Whether the graph has a cache of keys and values. */
  readonly isDecoder: boolean;
}

/**
 * The source of a text's row: an output of an encoder, or the output of a decoder for the last token. Of a decoder's
 * output only the elements at `columns` are read; all if absent.
 */
type RowSource = { readonly output: TextOutput } | { readonly columns?: readonly number[] };

/** Maximum number of tokens of a text if the folder gives no limit. */
const DEFAULT_LONGEST_TEXT = 8192;

/**
 * Maximum number of tokens of a text for which a graph runs uncut in native ONNX Runtime. Its attention outperforms
 * Hearth's by more than padding costs, but it needs memory for the attention weights of all pairs of tokens.
 */
const LONGEST_WHOLE_TEXT = 1024;

/**
 * Loads the tokenizer and the graph of a folder.
 *
 * @param chooseRows decides which rows of the graph to read, or throws a `StartupError` if the graph is unsuitable.
 * @throws {StartupError} when a file is missing from the folder, or the graph is unsuitable.
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
    ? Math.min(readNumber(folder.config, "seq_length") ?? Infinity, MAX_BAG_TOKENS)
    : await readMaxTokens(folder);
  const isDecoder = graph.model.graph.inputs.some(({ name }) =>
    name.startsWith("past_key_values.")
  );
  const source = chooseRows({ model: graph.model, tokenizer, isDecoder });
  const common = { source, tokenizer, dtype: graph.dtype };
  if (!("output" in source)) {
    // Imported on demand, as encoders, the usual case, start sooner without the engine.
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

/** Opens the graph cut at its attention nodes if that is possible and faster, otherwise uncut. */
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
  log.info("texts are padded to the length of the longest text in their batch", {
    reason: packed.refused,
  });
  return { encoder: await openWhole(), maxTokens };
}

/** Opens the graph cut for packed texts, or returns the reason why that is not possible. */
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
    return { refused: "It pools by the maximum, which requires padded texts." };
  }
  const wanted = `${name}/float32`;
  const contextLength = maxTokens ?? DEFAULT_LONGEST_TEXT;
  const result = cutEncoder(keepOutput(model, name, wanted), {
    ...{ wanted, padTokenId, contextLength },
    tail: summary.kind === "sums" ? makePoolingTail : undefined,
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

/** A `model_max_length` of at least this means that there is no limit. */
const NO_LIMIT = 1e9;

/** Reads the maximum number of tokens of one text, special ones included; `undefined` if the folder gives no limit. */
export async function readMaxTokens(folder: ModelFolder): Promise<number | undefined> {
  const sentence = await readOptionalJson(folder, "sentence_bert_config.json");
  const tokenizer = await readOptionalJson(folder, "tokenizer_config.json");
  const limits = [
    readPositions(folder.config),
    // In sentence-transformers, the limit in its own file overrides the tokenizer's.
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

/** A loaded graph with its tokenizer. The caller owns the runner. */
export interface LoadedTexts<Source = unknown> {
  readonly source: Source;
  readonly texts: TextRunner;
  /** Number of elements in a row. */
  readonly width: number;
  readonly tokenizer: EncoderTokenizer;
  /** Maximum number of tokens of one text; no limit if absent. */
  readonly maxTokens: number | undefined;
  readonly dtype: Dtype;
}

/** Maximum number of requests in progress at a time. Their texts share batches. */
const MAX_REQUESTS = 256;

/** The base of embedding models and rerankers. It owns the runner. */
export class TextModel {
  readonly maxSequences = MAX_REQUESTS;
  readonly dtype: Dtype;
  readonly contextLength: number | undefined;
  readonly tokenizer: EncoderTokenizer;
  readonly metrics: Registry;
  readonly #texts: TextRunner;
  readonly #requests = new ActiveRequests();

  constructor({ texts, dtype, maxTokens, tokenizer }: LoadedTexts) {
    this.#texts = texts;
    this.metrics = texts.metrics.registry;
    this.tokenizer = tokenizer;
    this.dtype = dtype;
    this.contextLength = maxTokens;
  }

  async dispose(): Promise<void> {
    this.#requests.cancel();
    await this.#requests.settle();
    await this.#texts.dispose();
  }

  /**
   * Runs a request's texts.
   *
   * @param emit receives the error if the request fails.
   * @returns a function that cancels the request.
   */
  protected run(
    requestId: string,
    job: TextJob & { onDone(promptTokens: number): void },
    emit: (event: ErrorEvent) => void,
  ): () => void {
    return this.#requests.start({
      requestId,
      what: "texts",
      emit,
      answer: async (signal) => job.onDone(await this.#texts.run(job, signal)),
    });
  }
}
