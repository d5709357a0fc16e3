/**
 * Embedding models: texts in, one vector for each out.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../config.ts";
import { HearthError, StartupError } from "../errors.ts";
import { log } from "../log.ts";
import type { Model as Graph } from "../onnx/proto.ts";
import type { EmbedEvent, EmbedTask, Task, TextInput } from "./task.ts";
import { loadDecoderTexts } from "./decoder_texts_load.ts";
import { type EmbeddingConfig, readEmbeddingConfig } from "./embedding_config.ts";
import { maxTokensOf } from "./encoder_limits.ts";
import { type EncoderForm, loadEncoder } from "./encoder_load.ts";
import { type EncodedText, EncoderTokenizer } from "./encoder_tokenizer.ts";
import type { ModelFolder } from "./folder.ts";
import { findOutput, keepOutput } from "./graph_output.ts";
import { type Model, requireTask } from "./model.ts";
import { FIRST_TOKEN } from "./packed_encoder.ts";
import {
  appendPooling,
  areWeightedSums,
  pickedToken,
  POOLED_OUTPUT,
  type PoolingMode,
} from "./pooling.ts";
import { fitText } from "./text_fit.ts";
import { isDecoder, readTextGraph, type TextLoadOptions } from "./text_graph.ts";
import type { TextRunner } from "./text_runner.ts";

/** Requests worked on at once; their texts share batches. */
const MAX_REQUESTS = 256;

/** Output that holds a vector per text already. */
const SENTENCE_OUTPUT = "sentence_embedding";
/** Outputs that hold a vector per token. */
const TOKEN_OUTPUTS = ["last_hidden_state", "token_embeddings", "hidden_states"];

/** What an embedding model is made of. It owns the runner. */
interface EmbeddingModelParts {
  readonly texts: TextRunner;
  /** Elements of a row. */
  readonly width: number;
  readonly tokenizer: EncoderTokenizer;
  readonly config: EmbeddingConfig;
  readonly maxTokens: number | undefined;
  readonly dtype: Dtype;
}

/** See the module. */
export class EmbeddingModel implements Model {
  readonly kind = "embedding";
  readonly maxSequences = MAX_REQUESTS;
  readonly dtype: Dtype;
  readonly contextLength: number | undefined;
  readonly #parts: EmbeddingModelParts;

  private constructor(parts: EmbeddingModelParts) {
    this.#parts = parts;
    this.dtype = parts.dtype;
    this.contextLength = parts.maxTokens;
  }

  /**
   * Loads a folder.
   *
   * @param modelName tells what the folder leaves out.
   * @throws {StartupError} when the folder lacks what the model needs.
   */
  static async load(
    folder: ModelFolder,
    options: TextLoadOptions & { readonly modelName: string },
  ): Promise<EmbeddingModel> {
    options.onProgress({ what: "reading the tokenizer" });
    const tokenizer = await EncoderTokenizer.load(folder);
    const config = await readEmbeddingConfig(folder, options.modelName);
    const maxTokens = await maxTokensOf(folder);
    await using graph = await readTextGraph(folder, options);
    const { dtype } = graph;
    if (isDecoder(graph.model)) {
      requireForDecoder(config, folder);
      const loaded = await loadDecoderTexts(folder, { ...options, dtype });
      const most = Math.min(loaded.maxTokens, maxTokens ?? Infinity);
      return new EmbeddingModel({ ...loaded, tokenizer, config, maxTokens: most });
    }
    const form = poolGraph(graph.model, config, folder);
    const loaded = await loadEncoder(graph, form, { ...options, tokenizer, maxTokens });
    return new EmbeddingModel({ ...loaded, tokenizer, config, dtype });
  }

  get metrics(): Registry {
    return this.#parts.texts.metrics.registry;
  }

  start(task: Task, emit: (event: EmbedEvent) => void): () => void {
    requireTask(task, "embed");
    const dimensions = this.#dimensionsOf(task);
    const numTexts = task.inputs.length;
    const vectors = new Float32Array(numTexts * dimensions);
    return this.#parts.texts.add({
      numTexts,
      encode: (index) => this.#encode(task, index),
      onRow: (index, row) => {
        const vector = row.subarray(0, dimensions);
        const length = lengthOf(vector);
        if (this.#parts.config.normalizes || dimensions < row.length) scale(vector, 1 / length);
        vectors.set(vector, index * dimensions);
      },
      onDone: (promptTokens) => emit({ type: "done", vectors, dimensions, promptTokens }),
      onError: (error) => {
        const known = HearthError.from(error);
        if (known.kind === "inference_failed") {
          log.error("embedding failed", { requestId: task.requestId, error });
        }
        emit({ type: "error", error: known.toWire() });
      },
    });
  }

  async dispose(): Promise<void> {
    await this.#parts.texts.dispose();
  }

  #dimensionsOf({ dimensions }: EmbedTask): number {
    const { width, config } = this.#parts;
    if (dimensions === undefined || dimensions === width) return width;
    if (config.canShorten && dimensions < width) return dimensions;
    const wanted = config.canShorten
      ? `a whole number from 1 to ${width}`
      : `${width}, since this model's vectors cannot be shortened`;
    throw new HearthError("invalid_value", `dimensions: want ${wanted}, saw ${dimensions}.`, {
      param: "dimensions",
    });
  }

  #encode(task: EmbedTask, index: number): EncodedText {
    const { tokenizer, maxTokens } = this.#parts;
    const input = task.inputs[index]!;
    const ids = fitText(this.#tokensOf(input, task, index), {
      numSpecial: tokenizer.numSpecial,
      maxTokens,
      truncation: task.truncation,
      param: paramOf(task, index),
    });
    return tokenizer.frame(ids);
  }

  #tokensOf(input: TextInput, task: EmbedTask, index: number): readonly number[] {
    const { tokenizer, config } = this.#parts;
    if (typeof input === "string") {
      return tokenizer.encode(config.prompts[task.inputType ?? "none"] + input);
    }
    const bad = input.findIndex((id) => id >= tokenizer.vocabSize);
    if (bad < 0) return tokenizer.unframe(input);
    const param = `${paramOf(task, index)}[${bad}]`;
    throw new HearthError(
      "invalid_value",
      `${param}: want a token id from 0 to ${tokenizer.vocabSize - 1}, saw ${input[bad]}.`,
      { param },
    );
  }
}

/** How the request names an input; a single one stands for itself. */
function paramOf({ inputs }: EmbedTask, index: number): string {
  return inputs.length === 1 ? "input" : `input[${index}]`;
}

/** A graph with one vector per text as its only output. */
function poolGraph(graph: Graph, config: EmbeddingConfig, folder: ModelFolder): EncoderForm {
  const output = POOLED_OUTPUT;
  if (graph.graph.outputs.some(({ name }) => name === SENTENCE_OUTPUT)) {
    const model = keepOutput(graph, SENTENCE_OUTPUT, output);
    return { model, output, packing: { model, output, summary: FIRST_TOKEN } };
  }
  requireNoLayers(config, folder);
  const { pooling: poolingModes } = config;
  const hidden = findOutput(graph, TOKEN_OUTPUTS);
  const model = appendPooling(graph, hidden, poolingModes);
  return { model, output, poolingModes, packing: packingOf(graph, hidden, poolingModes) };
}

/** How the rows of tokens become a text's where texts lie one after the other. */
function packingOf(
  graph: Graph,
  hidden: string,
  modes: readonly PoolingMode[],
): EncoderForm["packing"] {
  if (!areWeightedSums(modes)) return "It pools by the maximum, which takes padded texts.";
  const which = pickedToken(modes);
  const output = `${hidden}/float32`;
  return {
    model: keepOutput(graph, hidden, output),
    output,
    summary: which ? { kind: "token", which } : { kind: "sums", modes },
  };
}

function requireForDecoder(config: EmbeddingConfig, folder: ModelFolder): void {
  requireNoLayers(config, folder);
  const { pooling } = config;
  if (pooling.length === 1 && pooling[0] === "lasttoken") return;
  throw new StartupError(
    `${folder.path} holds a decoder and wants ${
      pooling.join(" and ")
    } pooling; of a decoder Hearth takes the last token.`,
  );
}

function requireNoLayers({ laterLayer }: EmbeddingConfig, folder: ModelFolder): void {
  if (laterLayer === undefined) return;
  throw new StartupError(
    `${folder.path}/modules.json names a layer ${laterLayer} after pooling, and the graph has no output ` +
      `${SENTENCE_OUTPUT} that would hold its result.`,
  );
}

/** @throws {Error} when the model failed on numbers: a vector without a direction is of use to nobody. */
function lengthOf(vector: Float32Array): number {
  let squares = 0;
  for (const element of vector) squares += element * element;
  const length = Math.sqrt(squares);
  if (length > 0 && length < Infinity) return length;
  throw new Error(`The model gave a vector of length ${length}.`);
}

function scale(vector: Float32Array, factor: number): void {
  for (let at = 0; at < vector.length; at++) vector[at]! *= factor;
}
