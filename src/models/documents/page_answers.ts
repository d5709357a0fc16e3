/**
 * Joins the answers about the pages of a document into one answer.
 *
 * @module
 */
import type { ChatEvent, TokenUsage } from "../task.ts";

/** The separator between pages, as in the output of OCR tools. */
const PAGE_BREAK = "\n\f";

const NO_TOKENS: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

type Finish = Extract<ChatEvent, { type: "finish" }>;
type Done = Extract<ChatEvent, { type: "done" }>;

export class PageAnswers {
  readonly #numPages: number;
  readonly #emit: (event: ChatEvent) => unknown;
  readonly #seen = new Set<ChatEvent["type"]>();
  #page = 0;
  /** Number of characters of the answer before the current page. */
  #offset = 0;
  #numTokensBefore = 0;
  /** Number of characters of the current page. */
  #length = 0;
  #numTokens = 0;
  #usage = NO_TOKENS;
  #finish: Finish | undefined;
  #isCutShort = false;

  /** @param emit receives the events of the joined answer. */
  constructor(numPages: number, emit: (event: ChatEvent) => unknown) {
    this.#numPages = numPages;
    this.#emit = emit;
  }

  /** Number of tokens of the answer so far. */
  get numTokens(): number {
    return this.#numTokensBefore + this.#numTokens;
  }

  /** Begins the next page. */
  beginPage(): void {
    this.#offset += this.#length + PAGE_BREAK.length;
    this.#numTokensBefore += this.#numTokens;
    this.#length = this.#numTokens = 0;
    this.#page++;
    const numTokens = this.#numTokensBefore;
    this.#emit({ type: "delta", index: 0, text: PAGE_BREAK, numTokens });
  }

  /**
   * Takes an event of the current page's answer.
   *
   * @returns whether to continue with the next page, if the page's answer has ended; `undefined` otherwise.
   */
  push(event: ChatEvent): boolean | undefined {
    switch (event.type) {
      case "admitted":
      case "start":
      case "scheduled":
      case "prompt":
        if (!this.#seen.has(event.type)) this.#emit(event);
        this.#seen.add(event.type);
        return undefined;
      case "delta":
        return this.#pushDelta(event);
      case "finish":
        this.#finish = event;
        this.#numTokens = event.numTokens ?? this.#numTokens;
        // A page that is too long for the model does not stop the others.
        this.#isCutShort ||= event.reason === "length";
        return undefined;
      case "done":
        return this.#endPage(event);
      case "error":
        this.#emit(event);
        return false;
    }
  }

  #pushDelta(event: Extract<ChatEvent, { type: "delta" }>): undefined {
    this.#length += event.text.length;
    this.#numTokens = event.numTokens ?? this.#numTokens;
    const offset = this.#offset;
    this.#emit({
      ...event,
      numTokens: event.numTokens === undefined ? undefined : this.numTokens,
      logprobs: event.logprobs?.map((each) => ({ ...each, offset: each.offset + offset })),
    });
  }

  #endPage(event: Done): boolean {
    const { usage } = event;
    this.#usage = {
      promptTokens: this.#usage.promptTokens + usage.promptTokens,
      completionTokens: this.#usage.completionTokens + usage.completionTokens,
      cachedTokens: this.#usage.cachedTokens + usage.cachedTokens,
      reasoningTokens: sum(this.#usage.reasoningTokens, usage.reasoningTokens),
    };
    const isStopped = this.#finish?.stopSequence !== undefined;
    if (this.#page < this.#numPages - 1 && !isStopped) return true;
    this.end(event);
    return false;
  }

  /** Ends the answer: no further page is read. */
  end({ times }: Pick<Done, "times"> = {}): void {
    const finish = this.#finish ?? { type: "finish", index: 0, reason: "stop" };
    const isCut = this.#isCutShort && finish.reason === "stop" &&
      finish.stopSequence === undefined;
    const numTokens = finish.numTokens === undefined ? undefined : this.numTokens;
    this.#emit({ ...finish, reason: isCut ? "length" : finish.reason, numTokens });
    this.#emit({ type: "done", usage: this.#usage, times });
  }
}

function sum(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined && other === undefined ? undefined : (one ?? 0) + (other ?? 0);
}
