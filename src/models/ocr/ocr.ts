/**
 * Image-to-text models: an encoder encodes the image once, a decoder generates token by token.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../../config.ts";
import { HearthError } from "../../errors.ts";
import { MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import { numPixelsOf } from "../../media/image_header.ts";
import { requireKnownTokens } from "../chat_generation.ts";
import { Tensor } from "../../onnx/runtime/ort.ts";
import { Completion } from "../completion.ts";
import { type GenerationDefaults, samplingOfChoices } from "../generation_defaults.ts";
import { type GenerationRules, rulesOfAnswer } from "./generation_rules.ts";
import type { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import type { WholeEncoderDecoder } from "../../decoder/whole_encoder_decoder.ts";
import { EngineLoop } from "../../engine/loop.ts";
import { type Model, requireTask } from "../model.ts";
import type { OcrFamily, OcrPrompt } from "./ocr_family.ts";
import { readOcrRequest } from "./ocr_request.ts";
import type { ImageMetrics } from "./image_metrics.ts";
import type { ImageEncoder, ImageInput } from "./image_encoder.ts";
import type { ImagePreprocessor } from "./image_preprocessor.ts";
import type { NormalizedImage } from "./image_reader.ts";
import { ActiveRequests } from "../active_requests.ts";
import type { ChatEvent, ChatTask, Task } from "../task.ts";
import type { TextTokenizer } from "../tokenizer.ts";
import { holdBack } from "./whole_answer.ts";

/** The parts of such a model; it owns all that has to be freed. */
export interface OcrModelParts {
  readonly encoder: ImageEncoder;
  readonly decoder: EncoderDecoder<ImageInput> | WholeEncoderDecoder<ImageInput>;
  readonly metrics: ImageMetrics;
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly imagePreprocessor: ImagePreprocessor;
  readonly family: OcrFamily;
  readonly tokenizer: TextTokenizer;
  readonly defaults: GenerationDefaults;
  readonly rules: GenerationRules;
  /** Most tokens of the text after the image. */
  readonly maxTextTokens: number;
  /** Most requests at a time. */
  readonly maxRequests: number;
}

/** A running request. */
interface Work {
  readonly task: ChatTask;
  readonly prompt: OcrPrompt;
  readonly emit: (event: ChatEvent) => void;
  readonly signal: AbortSignal;
  /** Called at the first token. */
  readonly observeFirstToken: () => void;
}

export class OcrModel implements Model {
  readonly kind = "ocr";
  readonly dtype: Dtype;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly #parts: OcrModelParts;
  readonly #metrics: ImageMetrics;
  readonly #engine: EngineLoop;
  readonly #requests: ActiveRequests;

  constructor(parts: OcrModelParts) {
    this.#parts = parts;
    this.dtype = parts.dtype;
    // No prefix cache: prompts are equal, but attend to different images.
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: false });
    this.contextLength = this.#engine.limits.contextLength;
    this.maxSequences = parts.maxRequests;
    this.#requests = new ActiveRequests(parts.maxRequests, {
      maxSmall: MAX_SMALL_IMAGE_PIXELS,
    });
    this.#metrics = parts.metrics;
    this.#metrics.requests = () => this.#requests.counts;
    this.#metrics.adoptEngine(this.#engine.metrics);
  }

  get metrics(): Registry {
    return this.#metrics.registry;
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    if (task.grammar !== undefined) {
      throw new HearthError(
        "unsupported_by_model",
        "A model that reads images has no structured output.",
      );
    }
    const { image, text } = readOcrRequest(task.messages);
    const prompt = this.#parts.family.readPrompt(text);
    this.#checkLengths(prompt);
    requireKnownTokens(task, this.#parts.rules.vocabSize);
    const observeFirstToken = this.#metrics.firstTokenSeconds.startTimer();
    const observeAnswer = this.#metrics.answerSeconds.startTimer();
    return this.#requests.start({
      requestId: task.requestId,
      what: "request",
      emit,
      work: numPixelsOf(image.bytes),
      answer: async (signal) => {
        const prepared = await this.#parts.imagePreprocessor.prepare(image, signal);
        signal.throwIfAborted();
        emit({ type: "admitted" });
        await this.#generate({ task, prompt, emit, signal, observeFirstToken }, prepared);
        observeAnswer();
      },
    });
  }

  async dispose(): Promise<void> {
    this.#requests.cancel();
    await this.#requests.settle();
    await this.#engine.close();
    this.#parts.imagePreprocessor.close();
    await this.#parts.decoder.dispose();
    await this.#parts.encoder.release();
  }

  /** Waits until all choices have ended. @throws the device's error; the signal's reason. */
  #generate(work: Work, image: NormalizedImage): Promise<void> {
    const { task: { options }, prompt: { text, prompt }, signal } = work;
    const { defaults, rules } = this.#parts;
    const input: ImageInput = {
      pixels: new Tensor("float32", image.data, image.dims),
      text,
    };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let completion: Completion | undefined;
    const begin = () => {
      work.observeFirstToken();
      const numPromptTokens = input.numPositions! + prompt.length;
      this.#metrics.promptTokens.inc(numPromptTokens);
      return this.#openCompletion(work, image, numPromptTokens);
    };
    const cancel = this.#engine.add({
      promptTokens: Int32Array.from(prompt),
      encoderInput: input,
      samples: samplingOfChoices(options, defaults),
      rules: () => rulesOfAnswer(prompt, rules),
      logitBias: options.logitBias && new Map(options.logitBias),
      topLogprobs: options.topLogprobs,
      maxTokens: options.maxTokens,
      minTokens: options.minTokens,
      endTokenIds: [...this.#endTokens(work.prompt), ...options.stopTokenIds ?? []]
        .filter((id) => id < rules.vocabSize),
    }, {
      onToken: (index, token, end) => (completion ??= begin()).push(index, token, end),
      onDone: () => {
        completion!.end(0);
        resolve();
      },
      onError: reject,
    });
    signal.addEventListener("abort", () => {
      cancel();
      reject(signal.reason);
    }, { once: true });
    return promise;
  }

  #openCompletion(
    { task, prompt, emit }: Work,
    image: NormalizedImage,
    numPromptTokens: number,
  ): Completion {
    const { tokenizer, family } = this.#parts;
    const { finish } = prompt;
    return new Completion({
      tokenizer: { tokenTexts: tokenizer.tokenTexts, decode: (ids) => family.textOf(ids) },
      eosTokenIds: this.#endTokens(prompt),
      options: task.options,
      numPromptTokens,
      emit: finish === undefined ? emit : holdBack(emit, (text) => finish(text, image)),
    });
  }

  #endTokens({ endToken }: OcrPrompt): ReadonlySet<number> {
    const { eosTokenIds } = this.#parts.defaults;
    return endToken === undefined ? eosTokenIds : eosTokenIds.union(new Set([endToken]));
  }

  #checkLengths({ text, prompt }: OcrPrompt): void {
    requireAtMost(text.length, this.#parts.maxTextTokens);
    requireAtMost(prompt.length, this.contextLength - 1);
  }
}

/** @throws {HearthError} `context_length_exceeded` for a text of more tokens. */
function requireAtMost(numTokens: number, most: number): void {
  if (numTokens <= most) return;
  throw new HearthError(
    "context_length_exceeded",
    `The text has ${numTokens} tokens; with an image the model takes at most ${most}.`,
    { param: "messages" },
  );
}
