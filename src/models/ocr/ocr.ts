/**
 * Image-to-text models (TrOCR, Donut, Florence-2): an encoder runs once per image, and a decoder generates the text
 * token by token.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype } from "../../base/config.ts";
import type { Size } from "../folder/preprocessor_config.ts";
import { HearthError } from "../../base/errors.ts";
import { countPixels, MAX_SMALL_IMAGE_PIXELS } from "../../media/image.ts";
import {
  generateChat,
  type GenerationDefaults,
  requireKnownTokens,
} from "../text/chat_generation.ts";
import { Tensor } from "../../device/ort/ort.ts";
import { type GenerationRules, makeAnswerRules } from "./generation_rules.ts";
import type { EncoderDecoder } from "../../decoder/encoder_decoder.ts";
import type { WholeDecoder } from "../../decoder/whole_decoder.ts";
import { EngineLoop } from "../../engine/loop.ts";
import { type Model, requireTask } from "../model.ts";
import { joinDeltas, readOcrRequest } from "./ocr_chat.ts";
import type { ImageEncoder, ImageInput } from "./image_encoder.ts";
import type { ImagePreprocessor } from "../images/image_preprocessor.ts";
import type { NormalizedImage } from "../images/vision_processor.ts";
import { ActiveRequests } from "../threads/active_requests.ts";
import type { ChatEvent, ChatTask, Task } from "../task.ts";
import type { TextTokenizer } from "../text/tokenizer.ts";
import type { EngineMetrics } from "../../engine/metrics.ts";
import { RequestMetrics } from "../../base/metric_set.ts";
import { untilAborted } from "../../base/timing.ts";

/** The prompt made from a request's text. */
export interface OcrPrompt {
  /** Token ids that the encoder reads after the image. */
  readonly text: readonly number[];
  /** Token ids with which the decoder begins. */
  readonly prompt: readonly number[];
  /** An additional token that ends the answer. */
  readonly endToken?: number | undefined;
  /** Converts the model's complete text to the answer; if absent, the text is the answer. */
  readonly finish?: ((text: string, image: Size) => string) | undefined;
}

/** The parts in which families of image-to-text models differ. */
export interface OcrFamily {
  /** Ids of the tokens that are left out of the answer's text. */
  readonly hidden: ReadonlySet<number>;
  /** Makes the prompt for a text. @throws {HearthError} `invalid_value` when the model does not take this text. */
  readPrompt(text: string): OcrPrompt;
}

/** The parts of an image-to-text model, which owns encoder, decoder and preprocessor. */
export interface OcrModelParts {
  readonly encoder: ImageEncoder;
  readonly decoder: EncoderDecoder<ImageInput> | WholeDecoder;
  readonly metrics: ImageMetrics;
  /** Dtype of the decoder. */
  readonly dtype: Dtype;
  readonly imagePreprocessor: ImagePreprocessor;
  readonly family: OcrFamily;
  readonly tokenizer: TextTokenizer;
  readonly defaults: GenerationDefaults;
  readonly rules: GenerationRules;
  /** Maximum number of tokens of the text after the image. */
  readonly maxTextTokens: number;
  /** Maximum number of requests at a time, which limits the images in memory. The engine may run fewer sequences. */
  readonly maxRequests: number;
}

interface RunningRequest {
  readonly task: ChatTask;
  readonly prompt: OcrPrompt;
  readonly emit: (event: ChatEvent) => void;
  readonly signal: AbortSignal;
  /** Called at the first token. */
  readonly observeFirstToken: () => void;
}

/**
 * Answers chats with one image. A request holds a slot from the preprocessing of its image to the end of its answer.
 * That limits the preprocessed images in memory: a `ChatModel` would preprocess the images of all waiting requests.
 */
export class OcrModel implements Model {
  readonly kind = "ocr";
  readonly dtype: Dtype;
  readonly contextLength: number;
  readonly metrics: Registry;
  readonly maxSequences: number;
  readonly #parts: OcrModelParts;
  readonly #engine: EngineLoop;
  readonly #requests: ActiveRequests;

  constructor(parts: OcrModelParts) {
    this.#parts = parts;
    this.dtype = parts.dtype;
    // The prefix cache is off, as prompts are equal but their images differ.
    this.#engine = new EngineLoop(parts.decoder, { prefixCache: false });
    this.contextLength = this.#engine.limits.contextLength;
    this.maxSequences = parts.maxRequests;
    this.#requests = new ActiveRequests(parts.maxRequests, {
      maxSmall: MAX_SMALL_IMAGE_PIXELS,
    });
    this.metrics = parts.metrics.registry;
    parts.metrics.requests = () => this.#requests.counts;
    parts.metrics.adoptEngine(this.#engine.metrics);
  }

  start(task: Task, emit: (event: ChatEvent) => void): () => void {
    requireTask(task, "chat");
    if (task.grammar !== undefined) {
      throw new HearthError(
        "unsupported_by_model",
        "This image-to-text model does not support structured output.",
      );
    }
    const { image, text } = readOcrRequest(task.messages);
    const prompt = this.#parts.family.readPrompt(text);
    this.#checkLengths(prompt);
    requireKnownTokens(task, this.#parts.rules.vocabSize);
    const { metrics, imagePreprocessor } = this.#parts;
    const observeFirstToken = metrics.firstTokenSeconds.startTimer();
    const observeAnswer = metrics.answerSeconds.startTimer();
    return this.#requests.start({
      requestId: task.requestId,
      what: "request",
      emit,
      param: image.param,
      work: countPixels(image.bytes),
      answer: async (signal) => {
        const options = { signal, isGiven: true };
        const prepared = await imagePreprocessor.call("normalize", image, options);
        signal.throwIfAborted();
        emit({ type: "admitted" });
        const work = { task, prompt, emit, signal, observeFirstToken };
        if (await this.#generate(work, prepared)) observeAnswer();
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

  /**
   * Generates the answer about an image.
   *
   * @returns whether all choices ended. If not, an error was reported to the client.
   * @throws the signal's reason.
   */
  async #generate(
    { task, prompt: { text, prompt, endToken, finish }, emit, signal, observeFirstToken }:
      RunningRequest,
    image: NormalizedImage,
  ): Promise<boolean> {
    const { family, tokenizer: { tokenTexts, tokenToId }, defaults, rules, metrics } = this.#parts;
    const input: ImageInput = { pixels: new Tensor("float32", image.data, image.dims), text };
    const eosTokenIds = defaults.eosTokenIds.union(
      new Set(endToken === undefined ? [] : [endToken]),
    );
    const findHiddenTokens = () => family.hidden;
    const send = finish === undefined ? emit : joinDeltas(emit, (text) => finish(text, image));
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const cancel = generateChat({
      engine: this.#engine,
      tokenizer: { tokenTexts, tokenToId, findHiddenTokens, template: undefined },
      defaults: { ...defaults, eosTokenIds },
    }, {
      task: { ...task, onlyCounts: false, options: { ...task.options, promptLogprobs: undefined } },
      prompt: {
        text: "",
        promptTokens: Int32Array.from(prompt),
        encoderInput: input,
        numEncoded: () => input.numPositions!,
        rules: () => makeAnswerRules(prompt, rules),
      },
      emit: (event) => {
        if (event.type === "start") {
          observeFirstToken();
          metrics.promptTokens.inc(event.promptTokens);
        }
        send(event);
        if (event.type === "done" || event.type === "error") resolve(event.type === "done");
      },
    });
    signal.addEventListener("abort", cancel, { once: true });
    return await untilAborted(promise, signal);
  }

  #checkLengths({ text, prompt }: OcrPrompt): void {
    requireAtMost(text.length, this.#parts.maxTextTokens);
    requireAtMost(prompt.length, this.contextLength - 1);
  }
}

/** @throws {HearthError} `context_length_exceeded` when a text has more tokens than `most`. */
function requireAtMost(numTokens: number, most: number): void {
  if (numTokens <= most) return;
  throw new HearthError(
    "context_length_exceeded",
    `The text has ${numTokens} tokens; with an image the model takes at most ${most}.`,
    { param: "messages" },
  );
}

export class ImageMetrics extends RequestMetrics {
  readonly images = this.counter("hearth_images_total", "Images that were encoded.");
  readonly promptTokens = this.counter(
    "hearth_prompt_tokens_total",
    "Positions of encoded images and tokens of prompts.",
  );
  readonly firstTokenSeconds = this.histogram(
    "hearth_time_to_first_token_seconds",
    "Time from a request's arrival to its first token.",
  );
  readonly encoderSeconds = this.histogram(
    "hearth_encoder_seconds",
    "Duration of one encoder run, which may encode several images.",
  );
  readonly answerSeconds = this.histogram(
    "hearth_image_seconds",
    "Time from a request's arrival to the end of its answer.",
  );

  constructor() {
    super("Requests");
  }

  /**
   * Includes an engine's metrics, except the number of prompt tokens and the time to the first token. Both are measured
   * here, because a request begins with preprocessing.
   */
  adoptEngine({ registry }: EngineMetrics): void {
    this.adopt(registry, ["hearth_prompt_tokens_total", "hearth_time_to_first_token_seconds"]);
  }
}
