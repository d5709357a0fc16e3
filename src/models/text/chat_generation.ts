/**
 * Generates the answer to a rendered chat task: makes an engine request with the model's defaults, and events from its
 * tokens.
 *
 * @module
 */
import type { DryOptions } from "../../engine/token_rules.ts";
import type { EngineLoop } from "../../engine/loop.ts";
import type { GenerationRequest } from "../../engine/sequence.ts";
import { HearthError } from "../../base/errors.ts";
import type { GrammarCompiler } from "../../engine/grammar/compiler.ts";
import { emitError } from "../threads/active_requests.ts";
import { OutputProcessor } from "./output_processor.ts";
import {
  type AnswerFormat,
  detectAnswerFormat,
  listMarkers,
  toAnswerGrammar,
} from "./chat/answer_format.ts";
import type { ChatEvent, ChatTask, GenerationOptions } from "../task.ts";
import type { TokenTexts } from "./tokenizer_files.ts";
import type { TextTokenizer } from "./tokenizer.ts";
import type { SamplingParams } from "../../decoder/decoder.ts";
import { type Json, readNumber, readTokenIds } from "../../hub/model_folder.ts";

/** The model's input: tokens, with media among them or encoded separately. */
export interface ChatPrompt extends
  Pick<
    GenerationRequest,
    "promptTokens" | "media" | "sectionPositions" | "encoderInput" | "rules"
  > {
  /** Number of positions in the encoder's output, known from the first token on. They count as prompt tokens. */
  readonly numEncoded?: () => number;
  /** Number of prompt tokens that stand for sound; absent if there are none. */
  readonly numAudioTokens?: number;
  /** The text from which the prompt's tokens were made. */
  readonly text: string;
}

interface ChatGenerationParts {
  readonly engine: EngineLoop;
  readonly tokenizer: Pick<
    TextTokenizer,
    "findHiddenTokens" | "tokenToId" | "template" | "tokenTexts"
  >;
  readonly defaults: GenerationDefaults;
  /** Absent if tasks have neither a grammar nor tools. */
  readonly grammars?: GrammarCompiler;
}

/**
 * Queues a chat request.
 *
 * @returns a function that cancels it: nothing is emitted afterwards.
 * @throws {HearthError} `invalid_value` when `logitBias` or `stopTokenIds` name a token that the model does not have,
 * or the grammar cannot be enforced; and the errors of the engine.
 */
export function generateChat(
  { engine, tokenizer, defaults, grammars }: ChatGenerationParts,
  { task, prompt, emit }: {
    readonly task: ChatTask;
    readonly prompt: ChatPrompt;
    readonly emit: (event: ChatEvent) => void;
  },
): () => void {
  const { options, requestId } = task;
  requireKnownTokens(task, engine.limits.vocabSize);
  const format = detectAnswerFormat(task, { template: tokenizer.template, prompt: prompt.text });
  const hidden = options.skipsSpecialTokens === false
    ? NONE_HIDDEN
    : tokenizer.findHiddenTokens(listMarkers(format));
  const { tokenTexts } = tokenizer;
  const getBytes = (id: number, isFirst: boolean) => {
    if (hidden.has(id)) return undefined;
    return isFirst ? tokenTexts.getFirstBytes(id) : tokenTexts.getBytes(id);
  };
  const spec = toAnswerGrammar(task, format);
  const { promptTokens, media, sectionPositions, encoderInput, rules } = prompt;
  const output = new OutputProcessor({
    tokens: {
      tokenTexts,
      getBytes,
      // A grammar prescribes every character, so a leading space must be kept.
      isFirst: spec === undefined && promptTokens.every((id) => hidden.has(id)),
    },
    format,
    eosTokenIds: defaults.eosTokenIds,
    options,
    get numPromptTokens() {
      return prompt.promptTokens.length + (prompt.numEncoded?.() ?? 0);
    },
    numAudioTokens: prompt.numAudioTokens,
    echo: task.raw?.echo ? prompt.text : undefined,
    emit,
  });
  if (task.onlyCounts) {
    output.begin();
    output.end(0);
    return () => {};
  }
  const end = engine.add({
    ...{ promptTokens, media, sectionPositions, encoderInput, rules },
    samples: toSamplings(options, defaults),
    maxTokens: options.maxTokens,
    logitBias: toBias(task, { format, tokenizer }),
    dry: toDry(options.dry, tokenTexts),
    minTokens: options.minTokens,
    endTokenIds: [...defaults.eosTokenIds, ...options.stopTokenIds ?? []]
      .filter((id) => id < engine.limits.vocabSize),
    topLogprobs: options.topLogprobs,
    promptLogprobs: options.promptLogprobs,
    grammar: spec && grammars?.compile(spec),
  }, {
    onScheduled: (cachedTokens) => {
      if (prompt.numEncoded === undefined) emit({ type: "scheduled", cachedTokens });
    },
    onScored: (token) => output.pushPrompt(token),
    onToken: (index, token, end) => output.push(index, token, end),
    onDone: (numCachedTokens, times) => output.end(numCachedTokens, times),
    onError: (error) => emitError(error, { requestId, what: "generation", emit }),
  });
  if (prompt.numEncoded === undefined) output.begin();
  if (options.promptLogprobs !== undefined) {
    output.pushPrompt({ tokenId: promptTokens[0]!, top: [] });
  }
  return end;
}

const NONE_HIDDEN: ReadonlySet<number> = new Set();

/** Converts DRY breakers from strings to tokens. */
function toDry(
  dry: GenerationOptions["dry"],
  tokenTexts: Pick<TokenTexts, "getBytes">,
): DryOptions | undefined {
  if (dry === undefined) return undefined;
  const decoder = new TextDecoder();
  const isBreaker = (tokenId: number) => {
    const text = decoder.decode(tokenTexts.getBytes(tokenId));
    return dry.breakers.some((breaker) => text.includes(breaker));
  };
  return { ...dry, isBreaker };
}

/** Makes the biases: the request's and, if calls are not allowed, one against the token with which a call starts. */
function toBias(
  { options: { logitBias }, tools }: ChatTask,
  { format, tokenizer }: {
    readonly format: AnswerFormat;
    readonly tokenizer: Pick<TextTokenizer, "tokenToId">;
  },
): ReadonlyMap<number, number> | undefined {
  const trigger = tools?.choice === "none" ? format.calls?.format.markup.trigger : undefined;
  const tokenId = trigger === undefined ? undefined : tokenizer.tokenToId(trigger);
  if (tokenId === undefined) return logitBias && new Map(logitBias);
  return new Map([...logitBias ?? [], [tokenId, -Infinity]]);
}

/** @throws {HearthError} `invalid_value` when an option names a token that is not in the vocabulary. */
export function requireKnownTokens({ options }: ChatTask, vocabSize: number): void {
  const biased = options.logitBias?.find(([tokenId]) => tokenId >= vocabSize);
  const stopping = options.stopTokenIds?.findIndex((tokenId) => tokenId >= vocabSize) ?? -1;
  if (biased === undefined && stopping < 0) return;
  const [param, tokenId] = biased !== undefined
    ? [`logitBias["${biased[0]}"]`, biased[0]]
    : [`stopTokenIds[${stopping}]`, options.stopTokenIds![stopping]];
  throw new HearthError(
    "invalid_value",
    `there is no token ${tokenId}; the model's vocabulary has tokens 0 to ${vocabSize - 1}.`,
    { param },
  );
}

/** The generation parameters that a model's configuration gives. */
export interface GenerationDefaults {
  /** Tokens that end a completion. */
  readonly eosTokenIds: ReadonlySet<number>;
  readonly sampling: Omit<SamplingParams, "seed" | "presencePenalty" | "frequencyPenalty">;
}

/** Reads the defaults. `generation_config.json` takes precedence over `config.json`. */
export function readGenerationDefaults(config: Json, generationConfig: Json): GenerationDefaults {
  const numberOr = (name: string, fallback: number) =>
    readNumber(generationConfig, name) ?? fallback;
  const text = config["text_config"] as Json | undefined;
  return {
    eosTokenIds: new Set(
      [config, text ?? {}, generationConfig].flatMap((json) => readTokenIds(json, "eos_token_id")),
    ),
    sampling: {
      temperature: generationConfig["do_sample"] === false ? 0 : numberOr("temperature", 1),
      topP: numberOr("top_p", 1),
      topK: numberOr("top_k", 0),
      minP: numberOr("min_p", 0),
      repetitionPenalty: numberOr("repetition_penalty", 1),
    },
  };
}

/** Makes the sampling parameters of one choice: the request's, completed by the model's defaults. */
function toSampling(
  options: GenerationOptions,
  defaults: GenerationDefaults,
  seed: number,
): SamplingParams {
  const { sampling } = defaults;
  return {
    temperature: options.temperature ?? sampling.temperature,
    topP: options.topP ?? sampling.topP,
    topK: options.topK ?? sampling.topK,
    minP: options.minP ?? sampling.minP,
    topNSigma: options.topNSigma,
    repetitionPenalty: options.repetitionPenalty ?? sampling.repetitionPenalty,
    repetitionWindow: options.repetitionWindow,
    presencePenalty: options.presencePenalty ?? 0,
    frequencyPenalty: options.frequencyPenalty ?? 0,
    seed,
  };
}

/** Computes the seed of choice `index`: the request's for the first choice, derived from that for the others. */
function computeSeed(seed: number, index: number): number {
  // An odd multiplier is a bijection on 32 bits, so no two choices share a stream.
  return (seed + Math.imul(index, 0x9e3779b9)) >>> 0;
}

/** Makes the sampling parameters of each choice of a request. The seed is random if the request has none. */
function toSamplings(
  options: GenerationOptions,
  defaults: GenerationDefaults,
): SamplingParams[] {
  const seed = options.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!;
  return Array.from(
    { length: options.n },
    (_, index) => toSampling(options, defaults, computeSeed(seed, index)),
  );
}
