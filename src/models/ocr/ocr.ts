/**
 * Models that read a picture and write text: an encoder sees the picture once, a decoder writes token by token.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Backend, Sampler } from "../../backend/backend.ts";
import type { Dtype } from "../../config.ts";
import { HearthError } from "../../errors.ts";
import { requireKnownTokens } from "../chat_generation.ts";
import { Tensor } from "../../onnx/ort.ts";
import { Completion } from "../completion.ts";
import type { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import { GenerationBatcher } from "./generation_batcher.ts";
import { type GenerationDefaults, samplingOfChoices } from "../generation_defaults.ts";
import type { GenerationRules } from "./generation_rules.ts";
import type { MergedDecoder } from "../encoder_decoder/merged_decoder.ts";
import { type Model, requireTask } from "../model.ts";
import type { OcrFamily, OcrPrompt } from "./ocr_family.ts";
import { readOcrRequest } from "./ocr_request.ts";
import { PictureMetrics } from "./picture_metrics.ts";
import type { PictureEncoder } from "./picture_encoder.ts";
import type { PictureDesk } from "./picture_desk.ts";
import type { PreparedPicture } from "./picture_message.ts";
import { ActiveRequests } from "../active_requests.ts";
import type { ChatEvent, ChatTask, ImagePart, Task } from "../task.ts";
import type { TextTokenizer } from "../tokenizer.ts";
import { holdBack } from "./whole_answer.ts";

/** What such a model is made of; it owns all that has to be freed. */
export interface OcrModelParts {
  readonly backend: Backend;
  readonly encoder: PictureEncoder;
  readonly decoder: CutDecoder | MergedDecoder;
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly sampler: Sampler;
  readonly desk: PictureDesk;
  readonly family: OcrFamily;
  readonly tokenizer: TextTokenizer;
  readonly defaults: GenerationDefaults;
  readonly rules: GenerationRules;
  /** Most tokens that the decoder holds of one choice, its prompt included. */
  readonly maxDecoderTokens: number;
  /** Most tokens of the text behind the picture. */
  readonly maxTextTokens: number;
  /** Most pictures that the encoder takes in one piece. */
  readonly maxPictures: number;
  /** Most requests at a time. */
  readonly maxRequests: number;
}

/** A request that is worked on. */
interface Work {
  readonly task: ChatTask;
  readonly prompt: OcrPrompt;
  readonly emit: (event: ChatEvent) => void;
  readonly signal: AbortSignal;
  readonly arrivedAtMs: number;
}

/** See the module. */
export class OcrModel implements Model {
  readonly kind = "ocr";
  readonly dtype: Dtype;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly #parts: OcrModelParts;
  readonly #metrics: PictureMetrics;
  readonly #batcher: GenerationBatcher;
  readonly #requests: ActiveRequests;

  constructor(parts: OcrModelParts) {
    this.#parts = parts;
    this.dtype = parts.dtype;
    this.contextLength = parts.maxDecoderTokens;
    this.maxSequences = parts.maxRequests;
    this.#requests = new ActiveRequests(parts.maxRequests);
    this.#metrics = new PictureMetrics(() => this.#requests.counts);
    this.#batcher = new GenerationBatcher({
      ...parts,
      maxRows: parts.maxRequests,
      expectsMore: () => parts.desk.isBusy,
      metrics: this.#metrics,
    });
  }

  get metrics(): Registry {
    return this.#metrics.registry;
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    if (task.grammar !== undefined) {
      throw new HearthError(
        "unsupported_by_model",
        "A model that reads pictures takes no form of answer.",
      );
    }
    const { picture, text } = readOcrRequest(task.messages);
    const prompt = this.#parts.family.readPrompt(text);
    this.#checkLengths(prompt);
    requireKnownTokens(task, this.#parts.rules.vocabSize);
    const arrivedAtMs = performance.now();
    return this.#requests.start({
      requestId: task.requestId,
      what: "request",
      emit,
      answer: async (signal) => {
        const prepared = await this.#prepare(picture, signal);
        await this.#generate({ task, prompt, emit, signal, arrivedAtMs }, prepared);
        this.#metrics.observeAnswer(performance.now() - arrivedAtMs);
      },
    });
  }

  async dispose(): Promise<void> {
    this.#requests.cancel();
    await this.#requests.settle();
    await this.#batcher.close();
    this.#parts.desk.close();
    this.#parts.sampler.dispose();
    await this.#parts.encoder.release();
    await this.#parts.decoder.release();
  }

  async #prepare(picture: ImagePart, signal: AbortSignal): Promise<PreparedPicture> {
    try {
      const prepared = await this.#parts.desk.prepare(picture, signal);
      signal.throwIfAborted();
      return prepared;
    } catch (error) {
      // Others may have waited for this one.
      this.#batcher.release();
      throw error;
    }
  }

  /** Waits until all choices have ended. @throws what went wrong on the device; the signal's reason. */
  #generate(work: Work, picture: PreparedPicture): Promise<void> {
    const { task: { options }, prompt, signal, arrivedAtMs } = work;
    const { defaults, maxDecoderTokens } = this.#parts;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    let completion: Completion | undefined;
    let numUnfinished = options.n;
    let hasTokens = false;
    let isOver = false;
    const end = () => isOver = true;
    promise.then(end, end);
    this.#batcher.add({
      pixels: new Tensor("float32", picture.data, picture.dims),
      text: prompt.text,
      prompt: prompt.prompt,
      samples: samplingOfChoices(options, defaults),
      logitBias: options.logitBias && new Map(options.logitBias),
      topLogprobs: options.topLogprobs ?? 0,
      maxTokens: Math.min(options.maxTokens ?? Infinity, maxDecoderTokens - prompt.prompt.length),
      isDropped: () => isOver || signal.aborted,
      onEncoded: (numPlaces) => {
        if (completion !== undefined) return;
        const numPromptTokens = numPlaces + prompt.prompt.length;
        this.#metrics.observePrompt(numPromptTokens);
        completion = this.#openCompletion(work, picture, numPromptTokens);
      },
      onToken: (index, token, isLast) => {
        this.#metrics.observeToken(hasTokens ? undefined : performance.now() - arrivedAtMs);
        hasTokens = true;
        return completion!.push(index, token, isLast ? "length" : undefined);
      },
      onEnd: () => {
        if (--numUnfinished > 0) return;
        completion!.end(0);
        resolve();
      },
      onError: reject,
    });
    return promise;
  }

  #openCompletion(
    { task, prompt, emit }: Work,
    picture: PreparedPicture,
    numPromptTokens: number,
  ): Completion {
    const { tokenizer, family, defaults } = this.#parts;
    const { endToken, finish } = prompt;
    return new Completion({
      tokenizer: { tokenTexts: tokenizer.tokenTexts, decode: (ids) => family.textOf(ids) },
      eosTokenIds: endToken === undefined
        ? defaults.eosTokenIds
        : defaults.eosTokenIds.union(new Set([endToken])),
      options: task.options,
      numPromptTokens,
      emit: finish === undefined ? emit : holdBack(emit, (text) => finish(text, picture)),
    });
  }

  #checkLengths({ text, prompt }: OcrPrompt): void {
    const { maxTextTokens, maxDecoderTokens } = this.#parts;
    requireAtMost(text.length, maxTextTokens);
    requireAtMost(prompt.length, maxDecoderTokens - 1);
  }
}

/** @throws {HearthError} `context_length_exceeded` for a text of more tokens. */
function requireAtMost(numTokens: number, most: number): void {
  if (numTokens <= most) return;
  throw new HearthError(
    "context_length_exceeded",
    `The text has ${numTokens} tokens; with a picture the model takes at most ${most}.`,
    { param: "messages" },
  );
}
