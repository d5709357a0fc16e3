/**
 * Converts the worker's events to a completion of plain text, or to the chunks of its stream.
 *
 * @module
 */
import type {
  CompletionLogprobs,
  CompletionsRequest,
  TextCompletion,
} from "../../../wire/text_endpoints.ts";
import { makePromptLogprobs, wantsRunningUsage } from "../../../wire/chat_request.ts";
import { makeRunningUsage } from "../../../wire/chat_response.ts";
import type { ChatEvent, ChosenLogprob, PromptToken, TokenUsage } from "../../../models/task.ts";
import { formatErrorEvent, formatEvent } from "../sse.ts";

type Choice = TextCompletion["choices"][number];
type Delta = Extract<ChatEvent, { type: "delta" }>;

/** An event that belongs to one of the request's prompts. */
export type CompletionEvent = ChatEvent & {
  /** Index of the prompt. */
  readonly from: number;
};

/** A prompt, as the worker reports it. If `echo` is set, its choices begin with it. */
interface Prompt {
  text: string;
  tokens: readonly PromptToken[];
  numTokens: number;
}

/** Merges the completions of several prompts, whole or chunk by chunk. */
export class CompletionBuilder {
  readonly #request: CompletionsRequest;
  readonly #head: Pick<TextCompletion, "id" | "object" | "created" | "model">;
  readonly #prompts: readonly Prompt[];
  readonly #choices: readonly Choice[];
  /** Log-probabilities of the generated tokens of each choice. */
  readonly #logprobs: readonly number[][];
  /** Indexes of the choices of which a chunk has been made. */
  readonly #begun = new Set<number>();
  readonly #usage = { prompt: 0, completion: 0, cached: 0 };
  #numDone = 0;

  constructor(
    request: CompletionsRequest,
    { model, numPrompts }: { readonly model: string; readonly numPrompts: number },
  ) {
    this.#request = request;
    this.#prompts = Array.from(
      { length: numPrompts },
      () => ({ text: "", tokens: [], numTokens: 0 }),
    );
    this.#head = {
      id: `cmpl-${crypto.randomUUID()}`,
      object: "text_completion",
      created: Math.floor(Date.now() / 1000),
      model,
    };
    const length = numPrompts * this.#numPerPrompt;
    this.#choices = Array.from({ length }, (_, index) => this.#newChoice(index));
    this.#logprobs = this.#choices.map(() => []);
  }

  /** Takes the next event. @returns the chunk of a choice that the event adds, if any. */
  push(event: CompletionEvent): Choice | undefined {
    const { from } = event;
    switch (event.type) {
      case "start":
        this.#prompts[from]!.text = event.text ?? "";
        this.#prompts[from]!.numTokens = event.promptTokens;
        return undefined;
      case "prompt":
        this.#prompts[from]!.tokens = event.tokens;
        return undefined;
      case "delta":
        return this.#grow(event, from);
      case "finish": {
        const chunk = this.#grow({ index: event.index, text: "" }, from);
        const reason = event.reason === "length" ? "length" : "stop";
        this.#getChoice(event.index, from).finish_reason = reason;
        return { ...chunk, finish_reason: reason };
      }
      case "done":
        this.#add(event.usage);
        return undefined;
      default:
        return undefined;
    }
  }

  /** Takes the next event, and formats what it adds as an event of the stream. */
  format(event: CompletionEvent): string {
    if (event.type === "error") return formatErrorEvent(event.error);
    const chunk = this.push(event);
    if (chunk !== undefined) {
      const { numTokens = 0 } = "numTokens" in event ? event : {};
      const usage = wantsRunningUsage(this.#request) &&
        { usage: makeRunningUsage(this.#prompts[event.from]!.numTokens, numTokens) };
      return formatEvent(JSON.stringify({ ...this.#head, choices: [chunk], ...usage }));
    }
    if (this.#numDone < this.#prompts.length || event.type !== "done") return "";
    const usage = this.#request.stream_options?.include_usage
      ? formatEvent(JSON.stringify({ ...this.#head, choices: [], usage: this.#formatUsage() }))
      : "";
    return usage + formatEvent("[DONE]");
  }

  /** A chunk without text. */
  get emptyEvent(): string {
    const chunk = { index: 0, text: "", logprobs: null, finish_reason: null };
    return formatEvent(JSON.stringify({ ...this.#head, choices: [chunk] }));
  }

  /** Returns the whole completion. With `best_of`, it has only the choices with the highest mean log-probabilities. */
  complete(): TextCompletion {
    const numWanted = this.#request.n ?? 1;
    const best = this.#prompts.flatMap((_, from) => {
      const first = from * this.#numPerPrompt;
      const promptChoices = this.#choices.slice(first, first + this.#numPerPrompt);
      return this.#numPerPrompt === numWanted
        ? promptChoices
        : promptChoices.sort((a, b) =>
          this.#getMeanLogprob(b.index) - this.#getMeanLogprob(a.index)
        )
          .slice(0, numWanted);
    });
    const choices = best.map((choice, index) => ({ ...choice, index }));
    return { ...this.#head, choices, usage: this.#formatUsage() };
  }

  /** Number of choices that are generated for each prompt. With `best_of`, not all are returned. */
  get #numPerPrompt(): number {
    return countChoices(this.#request);
  }

  #newChoice(index: number): Choice {
    const hasLogprobs = (this.#request.logprobs ?? null) !== null;
    return { index, text: "", logprobs: hasLogprobs ? makeLogprobs() : null, finish_reason: null };
  }

  #getChoice(index: number, from: number): Choice {
    return this.#choices[from * this.#numPerPrompt + index]!;
  }

  /** Returns the mean log-probability of a choice's generated tokens. */
  #getMeanLogprob(index: number): number {
    const logprobs = this.#logprobs[index]!;
    return logprobs.reduce((sum, each) => sum + each, 0) / Math.max(1, logprobs.length);
  }

  /** Adds text and log-probabilities to a choice. @returns the chunk that was added. */
  #grow({ index, text, logprobs = [] }: Pick<Delta, "index" | "text" | "logprobs">, from: number) {
    const choice = this.#getChoice(index, from);
    const chunk = this.#begin(choice, from);
    this.#logprobs[choice.index]!.push(...logprobs.map(({ logprob }) => logprob));
    if (chunk.logprobs) addLogprobs(chunk.logprobs, logprobs, this.#findStart(from));
    chunk.text += text;
    choice.text += chunk.text;
    if (choice.logprobs && chunk.logprobs) append(choice.logprobs, chunk.logprobs);
    return chunk;
  }

  /** Begins a choice's next chunk. The first chunk of a choice begins with the prompt if `echo` is set. */
  #begin(choice: Choice, from: number): Choice {
    const { echo, logprobs, prompt_logprobs: top } = this.#request;
    const chunk = this.#newChoice(choice.index);
    if (this.#begun.has(choice.index)) return chunk;
    this.#begun.add(choice.index);
    const { text, tokens } = this.#prompts[from]!;
    if (typeof top === "number") choice.prompt_logprobs = makePromptLogprobs(tokens, top);
    if (!echo) return chunk;
    if (chunk.logprobs) addPrompt(chunk.logprobs, { text, tokens, numTop: logprobs ?? 0 });
    return { ...chunk, text };
  }

  /** Returns the offset of the generated text within a choice's text. */
  #findStart(from: number): number {
    return this.#request.echo ? this.#prompts[from]!.text.length : 0;
  }

  #add({ promptTokens, completionTokens, cachedTokens }: TokenUsage): void {
    this.#numDone++;
    this.#usage.prompt += promptTokens;
    this.#usage.completion += completionTokens;
    this.#usage.cached += cachedTokens;
  }

  #formatUsage() {
    const { prompt, completion, cached } = this.#usage;
    return {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      prompt_tokens_details: { cached_tokens: cached },
    };
  }
}

/** Returns how many choices a request generates for each of its prompts. */
export function countChoices({ n, best_of: best }: CompletionsRequest): number {
  return best ?? n ?? 1;
}

function makeLogprobs(): CompletionLogprobs {
  return { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
}

/**
 * Adds the log-probabilities of generated tokens.
 *
 * @param start offset of the generated text within the choice's text.
 */
function addLogprobs(
  all: CompletionLogprobs,
  tokens: readonly ChosenLogprob[],
  start: number,
): void {
  for (const chosen of tokens) {
    const { token, logprob, top, offset } = chosen;
    all.tokens.push(token);
    all.token_logprobs.push(logprob);
    all.top_logprobs.push(toTop(top, chosen));
    all.text_offset.push(start + offset);
  }
}

function addPrompt(
  all: CompletionLogprobs,
  { text, tokens, numTop }: Omit<Prompt, "numTokens"> & { readonly numTop: number },
): void {
  all.text_offset.push(...findOffsets(text, tokens));
  for (const { token, logprob: exact, top } of tokens) {
    all.tokens.push(token);
    // JSON has no infinity; OpenAI sends -9999 instead.
    const logprob = exact === undefined ? null : Math.max(exact, -9999);
    all.token_logprobs.push(logprob);
    all.top_logprobs.push(
      logprob === null ? null : toTop(top.slice(0, numTop), { token, logprob }),
    );
  }
}

interface Scored {
  readonly token: string;
  readonly logprob: number;
}

/**
 * Lists the most likely tokens, and also the chosen token if it is not among them, as OpenAI does. The list is empty if
 * no likely tokens were requested.
 */
function toTop(top: readonly Scored[], own: Scored): Record<string, number> {
  if (top.length === 0) return {};
  return Object.fromEntries([...top, own].map(({ token, logprob }) => [token, logprob]));
}

const encoder = new TextEncoder();
const SPACE = 0x20;

/** Returns the offsets of tokens within their text, in UTF-16 units. Special tokens have no width. */
function findOffsets(text: string, tokens: readonly PromptToken[]): number[] {
  const bytes = encoder.encode(text);
  let at = 0;
  let offset = 0;
  const isNext = (wanted: readonly number[]) => wanted.every((byte, i) => bytes[at + i] === byte);
  return tokens.map((token) => {
    const start = offset;
    // SentencePiece puts a space before the first word of a text.
    const own = token.bytes[0] === SPACE && at === 0 && !isNext(token.bytes)
      ? token.bytes.slice(1)
      : token.bytes;
    if (!isNext(own)) return start;
    for (const byte of own) if ((byte & 0xc0) !== 0x80) offset += byte >= 0xf0 ? 2 : 1;
    at += own.length;
    return start;
  });
}

function append(all: CompletionLogprobs, more: CompletionLogprobs): void {
  all.tokens.push(...more.tokens);
  all.token_logprobs.push(...more.token_logprobs);
  all.top_logprobs.push(...more.top_logprobs);
  all.text_offset.push(...more.text_offset);
}
