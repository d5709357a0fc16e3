/**
 * Converts the tokens that are generated for a request into events.
 *
 * @module
 */
import type { SampledToken } from "../../decoder/decoder.ts";
import { Detokenizer, type GetTokenBytes, StopMatcher } from "../../engine/detokenizer.ts";
import type { EndReason, GenerationTimes } from "../../engine/loop.ts";
import type { TokenText } from "./tokenizer_files.ts";
import type { AnswerFormat } from "./chat/answer_format.ts";
import { type AnswerDelta, AnswerParser } from "./chat/answer_parser.ts";
import type { ChatEvent, ChosenLogprob, GenerationOptions, PromptToken } from "../task.ts";

/** Converts an answer's tokens to text. */
export interface AnswerTokens {
  /** Returns the bytes that a token adds to the answer; `undefined` for hidden tokens. */
  readonly getBytes: GetTokenBytes;
  /** The text of each token, including hidden ones. */
  readonly tokenTexts: { of(id: number): TokenText };
  /** Whether none of the prompt is shown, so that the first token begins the text. */
  readonly isFirst: boolean;
}

interface OutputOptions {
  readonly tokens: AnswerTokens;
  readonly eosTokenIds: ReadonlySet<number>;
  readonly options: GenerationOptions;
  readonly numPromptTokens: number;
  /** Prompt tokens that stand for sound; absent if there are none. */
  readonly numAudioTokens?: number | undefined;
  /** The prompt's text, if it is echoed. */
  readonly echo?: string | undefined;
  /** The format by which the answer is parsed; if absent, all of it is text. */
  readonly format?: AnswerFormat | undefined;
  readonly emit: (event: ChatEvent) => void;
}

export class OutputProcessor {
  readonly #options: OutputOptions;
  readonly #choices: readonly Choice[];
  readonly #prompt: PromptToken[] = [];
  #hasStarted = false;

  constructor(options: OutputOptions) {
    this.#options = options;
    this.#choices = Array.from(
      { length: options.options.n },
      (_, index) => new Choice(index, options),
    );
  }

  /** Emits the start event, unless that has been done. */
  begin(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    const { emit, numPromptTokens: promptTokens, echo: text } = this.#options;
    emit({ type: "start", promptTokens, ...(text !== undefined && { text }) });
  }

  /** Takes the next token of the prompt. The first token has no log-probability. */
  pushPrompt(
    { tokenId, logprob, top }: Omit<SampledToken, "logprob"> & { logprob?: number },
  ): void {
    const { tokenTexts } = this.#options.tokens;
    const named = (id: number) => ({ id, ...tokenTexts.of(id) });
    this.#prompt.push({
      ...named(tokenId),
      logprob,
      top: top.map(({ tokenId, logprob }) => ({ ...named(tokenId), logprob })),
    });
    if (this.#prompt.length < this.#options.numPromptTokens) return;
    this.#options.emit({ type: "prompt", tokens: this.#prompt });
  }

  /**
   * Takes a token of choice `index`.
   *
   * @returns whether the choice ends with it.
   */
  push(index: number, token: SampledToken, end: EndReason | undefined): boolean {
    this.begin();
    return this.#choices[index]!.push(token, end);
  }

  /** Emits the last event, when all choices have ended. */
  end(numCachedTokens: number, times?: GenerationTimes): void {
    const count = (countTokens: (choice: Choice) => number) =>
      this.#choices.reduce((sum, choice) => sum + countTokens(choice), 0);
    this.#options.emit({
      type: "done",
      usage: {
        promptTokens: this.#options.numPromptTokens,
        completionTokens: count(({ numTokens }) => numTokens),
        reasoningTokens: count(({ numReasoningTokens }) => numReasoningTokens),
        cachedTokens: numCachedTokens,
        audioTokens: this.#options.numAudioTokens,
      },
      times,
    });
  }
}

class Choice {
  /** Number of generated tokens, including the one that ended the choice. */
  numTokens = 0;
  /** Number of generated tokens that are reasoning. */
  numReasoningTokens = 0;
  readonly #index: number;
  readonly #options: OutputOptions;
  readonly #detokenizer: Detokenizer;
  readonly #stops: StopMatcher;
  /** Absent if the answer is only text. */
  readonly #parser: AnswerParser | undefined;
  /** Log-probabilities of tokens whose text is incomplete or may be part of a stop string. */
  #pendingLogprobs: ChosenLogprob[] = [];
  /** Number of UTF-16 units generated so far, including units that the stop matcher holds back. */
  #numUnits = 0;
  /** Number of UTF-16 units that the stop matcher has released. */
  #numShown = 0;
  /** The stop string that was found. */
  #stopSequence: string | undefined;

  constructor(index: number, options: OutputOptions) {
    this.#index = index;
    this.#options = options;
    this.#detokenizer = new Detokenizer(options.tokens.getBytes, options.tokens);
    this.#stops = new StopMatcher(options.options.stop);
    const { format } = options;
    if (format?.reasoning !== undefined || format?.calls !== undefined) {
      this.#parser = new AnswerParser(format);
    }
  }

  push(token: SampledToken, end: EndReason | undefined): boolean {
    // The request wants no completion, but the engine samples one token after the prompt. It is dropped.
    if (this.#options.options.maxTokens === 0) return this.#finish("length");
    this.numTokens++;
    const isEnd = this.#isEnd(token.tokenId);
    if (isEnd && !this.#showsEnd(token.tokenId)) return this.#finish("stop");
    this.#addLogprob(token);
    const wasReasoning = this.#parser?.isReasoning;
    const foundStop = this.#pushText(this.#detokenizer.push(token.tokenId));
    if (wasReasoning || this.#parser?.isReasoning) this.numReasoningTokens++;
    if (foundStop) return this.#finish("stop", false);
    if (isEnd) return this.#finish("stop");
    if (this.#parser?.isOver) return this.#finish("stop", false);
    return end !== undefined && this.#finish(end);
  }

  #isEnd(tokenId: number): boolean {
    const { eosTokenIds, options: { ignoreEos = false, stopTokenIds = [] } } = this.#options;
    return stopTokenIds.includes(tokenId) || (!ignoreEos && eosTokenIds.has(tokenId));
  }

  /** Whether the text includes the token that ends the choice. */
  #showsEnd(tokenId: number): boolean {
    const { tokens, options } = this.#options;
    return options.includesStop === true && tokens.getBytes(tokenId, false) !== undefined;
  }

  /** Adds generated text. @returns whether it completes a stop string. */
  #pushText(fragment: string): boolean {
    this.#numUnits += fragment.length;
    if (this.numTokens <= (this.#options.options.minTokens ?? 0)) {
      this.#emit(fragment);
      return false;
    }
    const { text, stop } = this.#stops.push(fragment);
    if (stop === undefined) this.#emit(text);
    else {
      const shown = this.#options.options.includesStop ? text + stop : text;
      const end = this.#numShown + shown.length;
      this.#pendingLogprobs = this.#pendingLogprobs.filter(({ offset }) => offset < end);
      this.#emit(shown, true);
    }
    this.#stopSequence = stop;
    return stop !== undefined;
  }

  /** Ends the choice. @param withRest whether to emit the text that is held back. */
  #finish(reason: EndReason, withRest = true): true {
    let isCut = reason === "length" || !withRest;
    if (withRest) {
      const foundStop = this.#pushText(this.#detokenizer.flush());
      if (foundStop) {
        reason = "stop";
        isCut = true;
      } else this.#emit(this.#stops.flush());
    }
    if (this.#parser !== undefined) this.#emitDeltas(this.#parser.end(isCut));
    const hasCalls = reason === "stop" && this.#parser?.hasWholeCalls === true;
    const { emit } = this.#options;
    const stopSequence = this.#stopSequence;
    emit({
      type: "finish",
      index: this.#index,
      reason: hasCalls ? "tool_calls" : reason,
      numTokens: this.numTokens,
      ...(stopSequence !== undefined && { stopSequence }),
    });
    return true;
  }

  /** Emits text. @param isLast whether no more text follows. */
  #emit(text: string, isLast = false): void {
    this.#numShown += text.length;
    const isWhole = isLast || (this.#numShown === this.#numUnits && !this.#detokenizer.holdsBack);
    const logprobs = isWhole ? this.#pendingLogprobs.splice(0) : [];
    if (text === "" && logprobs.length === 0) return;
    this.#emitDeltas(this.#parser?.push(text) ?? [{ text }], logprobs);
  }

  /** @param logprobs log-probabilities of all deltas' tokens, sent with the first delta, or alone if there is none. */
  #emitDeltas(
    deltas: readonly Partial<AnswerDelta>[],
    logprobs: readonly ChosenLogprob[] = [],
  ): void {
    const [first = {}, ...others] = deltas;
    this.#emitDelta(first, logprobs);
    for (const delta of others) this.#emitDelta(delta, []);
  }

  #emitDelta(
    { text, reasoning = "", toolCalls = [] }: Partial<AnswerDelta>,
    logprobs: readonly ChosenLogprob[],
  ): void {
    const hasAny = text || reasoning || toolCalls.length > 0 || logprobs.length > 0;
    if (!hasAny) return;
    this.#options.emit({
      type: "delta",
      index: this.#index,
      text: text ?? "",
      numTokens: this.numTokens,
      ...(reasoning !== "" && { reasoning }),
      ...(toolCalls.length > 0 && { toolCalls }),
      ...(logprobs.length > 0 && { logprobs }),
    });
  }

  #addLogprob(token: SampledToken): void {
    if (this.#options.options.topLogprobs === undefined) return;
    this.#pendingLogprobs.push({
      ...this.#toLogprob(token),
      offset: this.#detokenizer.length,
      top: token.top.map((rival) => this.#toLogprob(rival)),
    });
  }

  #toLogprob({ tokenId, logprob }: { readonly tokenId: number; readonly logprob: number }) {
    return { ...this.#options.tokens.tokenTexts.of(tokenId), logprob };
  }
}
