/**
 * Embedding models: texts in, one vector per text out.
 *
 * @module
 */
import { HearthError, StartupError } from "../../base/errors.ts";
import type { ModelProto as Graph } from "../../graph/file/proto.ts";
import type { EmbedEvent, EmbedTask, Task } from "../task.ts";
import { BAG_OUTPUTS, isBagGraph } from "./whole_encoders.ts";
import {
  type EmbeddingConfig,
  guessPromptPurpose,
  readEmbeddingConfig,
} from "./embedding_config.ts";
import { type EncodedText, fitText } from "./encoder_tokenizer.ts";
import { type ModelFolder, readNumber } from "../../hub/model_folder.ts";
import { findOutput } from "../folder/graph_file.ts";
import { type Model, type OpenContext, requireTask, requireTokenIds } from "../model.ts";
import { findPickedToken, type TextOutput } from "./pooling.ts";
import { type LoadedTexts, loadTexts, TextModel } from "./text_model.ts";

/** The output that already holds one vector per text. */
const SENTENCE_OUTPUT = "sentence_embedding";
/** The outputs that hold one vector per token. */
const TOKEN_OUTPUTS = ["last_hidden_state", "token_embeddings", "hidden_states"];

export class EmbeddingModel extends TextModel implements Model {
  readonly kind = "embedding";
  readonly #loaded: LoadedTexts;
  readonly #config: EmbeddingConfig;
  /** The placeholder tokens of media, which this model does not take. */
  readonly #mediaTokens: ReadonlySet<number>;

  private constructor(loaded: LoadedTexts, config: EmbeddingConfig, folder: ModelFolder) {
    super(loaded);
    this.#loaded = loaded;
    this.#config = config;
    const names = ["image_token_id", "video_token_id", "audio_token_id"];
    this.#mediaTokens = new Set(names.flatMap((name) => readNumber(folder.config, name) ?? []));
  }

  /**
   * Loads the model. Configuration that the folder lacks is looked up by the model's name.
   *
   * @throws {StartupError} when a file is missing from the folder, or the graph is unsuitable.
   */
  static async load(context: OpenContext): Promise<EmbeddingModel> {
    const { folder, modelName } = context;
    const config = await readEmbeddingConfig(folder, modelName);
    const loaded = await loadTexts(
      context,
      ({ model, isDecoder }) =>
        isDecoder
          ? requireLastToken(config, folder)
          : { output: findTextOutput(model, config, folder) },
    );
    return new EmbeddingModel(loaded, config, folder);
  }

  start(task: Task, emit: (event: EmbedEvent) => void): () => void {
    requireTask(task, "embed");
    const dimensions = this.#checkDimensions(task);
    const numTexts = task.inputs.length;
    const vectors = new Float32Array(numTexts * dimensions);
    return this.run(task.requestId, {
      numTexts,
      encode: (index) => this.#encode(task, index),
      onRow: (index, row) => {
        const vector = row.subarray(0, dimensions);
        const length = computeLength(vector);
        const isShort = dimensions < row.length;
        if (task.normalizes ?? (this.#config.normalizes || isShort)) scale(vector, 1 / length);
        vectors.set(vector, index * dimensions);
      },
      onDone: (promptTokens) => emit({ type: "done", vectors, dimensions, promptTokens }),
    }, emit);
  }

  #checkDimensions({ dimensions }: EmbedTask): number {
    const { width } = this.#loaded;
    const { isMatryoshka } = this.#config;
    if (dimensions === undefined) return Math.min(this.#config.dimensions ?? width, width);
    if (dimensions === width) return width;
    if (isMatryoshka && dimensions < width) return dimensions;
    const wanted = isMatryoshka
      ? `a whole number from 1 to ${width}`
      : `${width}, since this model's vectors cannot be shortened`;
    throw new HearthError("invalid_value", `dimensions: want ${wanted}, saw ${dimensions}.`, {
      param: "dimensions",
    });
  }

  #encode(task: EmbedTask, index: number): EncodedText {
    const { tokenizer, maxTokens } = this.#loaded;
    const input = task.inputs[index]!;
    const { truncation, keepsEnd } = task;
    const param = nameParam(task, index);
    const length = { maxTokens, mayCut: truncation !== undefined, keepsEnd, what: param, param };
    const fit = (ids: readonly number[]) => {
      this.#requireText(ids, param);
      const { numSpecial } = tokenizer;
      return tokenizer.frame(fitText(ids, { numSpecial, maxTokens, truncation, keepsEnd, param }));
    };
    if (typeof input !== "string") {
      requireTokenIds(input, tokenizer.vocabSize, (index) => `${length.what}[${index}]`);
      return fit(tokenizer.unframe(input));
    }
    const prompt = this.#promptFor(task);
    const skips = this.#config.skipsPrompt && prompt !== "";
    // If the beginning is cut, the number of all tokens tells how much of the prompt is left.
    const ids = tokenizer.encode(prompt + input, skips && keepsEnd ? undefined : length);
    const text = fit(ids);
    if (!skips) return text;
    const numCut = keepsEnd ? ids.length + tokenizer.numSpecial - text.ids.length : 0;
    return { ...text, countsFrom: Math.max(0, this.#countPromptTokens(prompt, text) - numCut) };
  }

  /** @throws {HearthError} `invalid_value` when a token is a placeholder of media, as only texts are embedded. */
  #requireText(ids: readonly number[], param: string): void {
    if (this.#mediaTokens.size === 0) return;
    const media = ids.find((id) => this.#mediaTokens.has(id));
    if (media === undefined) return;
    throw new HearthError(
      "invalid_value",
      `${param}: want text, saw the token ${media}, which stands for media; only texts are embedded.`,
      { param },
    );
  }

  /**
   * Chooses the prompt to put before the texts.
   *
   * @throws {HearthError} `invalid_value` listing the model's prompts, when none has the requested name.
   */
  #promptFor({ inputType, promptName }: EmbedTask): string {
    const { prompts, namedPrompts } = this.#config;
    if (promptName === undefined) return prompts[inputType ?? "none"];
    const purpose = guessPromptPurpose(promptName);
    const named = namedPrompts.get(promptName) ?? (purpose && prompts[purpose]);
    if (named !== undefined) return named;
    const names = [...new Set([...namedPrompts.keys(), "query", "document"])].sort();
    throw new HearthError(
      "invalid_value",
      `want one of the model's prompts, ${names.join(", ")}; saw ${
        JSON.stringify(promptName.slice(0, 100))
      }.`,
      { param: "promptName" },
    );
  }

  /**
   * Counts the leading tokens that belong to the prompt, special tokens included. At least one token is left for the
   * text.
   */
  #countPromptTokens(prompt: string, { ids }: EncodedText): number {
    const { tokenizer } = this.#loaded;
    const framed = tokenizer.frame(tokenizer.encode(prompt)).ids.length;
    const numPrompt = framed - Math.min(1, tokenizer.numSpecialAfter);
    return Math.min(numPrompt, ids.length - 1);
  }
}

/** Makes the JSON path of an input in the request. */
function nameParam({ inputs }: EmbedTask, index: number): string {
  return inputs.length === 1 ? "input" : `input[${index}]`;
}

/** Chooses the output to read: one with a vector per text, or one with a vector per token, which is pooled here. */
function findTextOutput(graph: Graph, config: EmbeddingConfig, folder: ModelFolder): TextOutput {
  if (isBagGraph(graph)) return { name: findOutput(graph, BAG_OUTPUTS) };
  const isPooled = graph.graph.outputs.some(({ name }) => name === SENTENCE_OUTPUT);
  if (isPooled && !poolsAnew(graph, config)) {
    requirePromptsCount(config, folder);
    return { name: SENTENCE_OUTPUT };
  }
  requireNoLayers(config, folder);
  return { name: findOutput(graph, TOKEN_OUTPUTS), pooling: config.pooling };
}

/**
 * Whether to pool by the folder's configuration although the graph has an output with pooled vectors. That is possible
 * if the graph also has an output with one row per token, and no layer with weights follows pooling.
 */
function poolsAnew(graph: Graph, { isPoolingGiven, laterLayer }: EmbeddingConfig): boolean {
  return isPoolingGiven && laterLayer === undefined &&
    graph.graph.outputs.some(({ name }) => TOKEN_OUTPUTS.includes(name));
}

/** Checks that pooling takes the last token, as decoders return only its row. */
function requireLastToken(config: EmbeddingConfig, folder: ModelFolder): Record<string, never> {
  requireNoLayers(config, folder);
  const { pooling } = config;
  if (findPickedToken(pooling) === "last") return {};
  throw new StartupError(
    `${folder.path} holds a decoder and wants ${
      pooling.join(" and ")
    } pooling; for decoders Hearth supports only the last token (lasttoken).`,
  );
}

/**
 * @throws {StartupError} when prompts are to be excluded from pooling, but the graph itself pools and does not know
 * where the prompts end.
 */
function requirePromptsCount({ skipsPrompt, prompts }: EmbeddingConfig, folder: ModelFolder): void {
  if (!skipsPrompt || Object.values(prompts).every((prompt) => prompt === "")) return;
  throw new StartupError(
    `${folder.path} excludes the tokens of prompts from pooling (include_prompt: false), but its graph has only the ` +
      `output ${SENTENCE_OUTPUT}, which includes them. Wanted: a graph with an output ${
        TOKEN_OUTPUTS.join(" or ")
      }.`,
  );
}

function requireNoLayers({ laterLayer }: EmbeddingConfig, folder: ModelFolder): void {
  if (laterLayer === undefined) return;
  throw new StartupError(
    `${folder.path}/modules.json names a layer ${laterLayer} after pooling, but the graph has no output ` +
      `${SENTENCE_OUTPUT}, which would hold the result of that layer.`,
  );
}

/** Computes the Euclidean length. @throws {Error} when the vector is zero or not finite. */
function computeLength(vector: Float32Array): number {
  let squares = 0;
  for (const element of vector) squares += element * element;
  const length = Math.sqrt(squares);
  if (length > 0 && length < Infinity) return length;
  throw new Error(`The model returned a vector of length ${length}.`);
}

function scale(vector: Float32Array, factor: number): void {
  for (let at = 0; at < vector.length; at++) vector[at]! *= factor;
}
