/**
 * Chat with models that read text from one image: what a request holds, and its answer.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { ChatEvent, ChatMessage, ChatTask, ChosenLogprob, ImagePart } from "../task.ts";
import type { SampledToken } from "../../decoder/decoder.ts";
import { type AnswerTokens, OutputProcessor } from "../text/output_processor.ts";
import type { LineCharacter } from "./text_recognition.ts";
import type { TextRow } from "./line_reader.ts";

/** @throws {HearthError} `invalid_value` unless the last user message has exactly one image. */
export function readOcrRequest(messages: readonly ChatMessage[]): {
  readonly image: ImagePart;
  /** The text of all text parts; empty if there are none. */
  readonly text: string;
} {
  const index = messages.findLastIndex(({ role }) => role === "user");
  const content = messages[index]?.content ?? "";
  const parts = typeof content === "string" ? [] : content;
  const [image, second] = parts.filter((part) => part.type === "image");
  if (second !== undefined) {
    throw new HearthError(
      "invalid_value",
      `${second.param}: this model reads one image at a time, and the message has another.`,
      { param: second.param },
    );
  }
  if (image === undefined) {
    const param = index < 0 ? "messages" : `messages[${index}].content`;
    throw new HearthError(
      "invalid_value",
      `${param}: this model reads images; want an image in the last user message, saw text only.`,
      { param },
    );
  }
  const texts = parts.flatMap((part) => part.type === "text" ? [part.text.trim()] : []);
  return { image, text: texts.filter((text) => text !== "").join("\n") };
}

/**
 * Passes on a completion's events, joining the deltas of each choice into one.
 *
 * @param finish turns a choice's complete text into its answer.
 */
export function joinDeltas(
  emit: (event: ChatEvent) => void,
  finish: (text: string) => string,
): (event: ChatEvent) => void {
  const texts = new Map<number, string>();
  const logprobs = new Map<number, ChosenLogprob[]>();
  return (event) => {
    if (event.type === "delta") {
      const { index } = event;
      texts.set(index, (texts.get(index) ?? "") + event.text);
      if (event.logprobs === undefined) return;
      logprobs.set(index, [...logprobs.get(index) ?? [], ...event.logprobs]);
      return;
    }
    if (event.type === "finish") {
      const { index, numTokens } = event;
      const text = finish(texts.get(index) ?? "");
      emit({ type: "delta", index, text, logprobs: logprobs.get(index), numTokens });
    }
    emit(event);
  };
}

/** Token ids of separators between lines; the recogniser's classes have ids from 0 on. */
const SEPARATORS = { end: -1, space: -2, newline: -3 } as const;

const LEAST_PROBABILITY = 1e-30;

interface Pending {
  text: string;
  logprobs: ChosenLogprob[];
  /** Number of tokens of the answer so far. */
  numTokens: number;
}

export class RowWriter implements AnswerTokens {
  readonly #output: OutputProcessor;
  readonly #maxTokens: number;
  #characters: readonly string[] = [];
  #numTokens = 0;
  #isFirst = true;
  #hasEnded = false;
  /** The current row's text; it is sent as one delta, since one per character would be too many messages. */
  #pending: Pending = { text: "", logprobs: [], numTokens: 0 };
  readonly #emit: (event: ChatEvent) => void;

  constructor({ options }: ChatTask, emit: (event: ChatEvent) => void) {
    this.#maxTokens = options.maxTokens ?? Infinity;
    this.#emit = emit;
    this.#output = new OutputProcessor({
      tokens: this,
      eosTokenIds: new Set([SEPARATORS.end]),
      // Tokens are characters here, and the answer ends with the image, so these options have no meaning.
      options: { ...options, stopTokenIds: [], ignoreEos: false },
      numPromptTokens: 0,
      emit: (event) => this.#collect(event),
    });
  }

  readonly tokenTexts = {
    of: (id: number) => {
      const token = this.#decodeToken(id);
      return { token, bytes: [...new TextEncoder().encode(token)] };
    },
  };

  readonly isFirst = true;

  readonly getBytes = (id: number) =>
    id === SEPARATORS.end ? undefined : new TextEncoder().encode(this.#decodeToken(id));

  /** @returns whether more may be written. */
  write({ characters, lines }: TextRow): boolean {
    this.#characters = characters;
    if (!this.#isFirst) this.#push(certain(SEPARATORS.newline));
    this.#isFirst = false;
    lines.forEach((line, position) => {
      if (position > 0) this.#push(certain(SEPARATORS.space));
      for (const character of line.characters) this.#push(toToken(character));
    });
    this.#flush();
    return !this.#hasEnded;
  }

  /** Ends the answer, unless it has ended already. */
  end(): void {
    this.#push(certain(SEPARATORS.end));
    this.#output.end(0);
  }

  #push(token: SampledToken): void {
    if (this.#hasEnded) return;
    const isLast = ++this.#numTokens === this.#maxTokens;
    this.#hasEnded = this.#output.push(0, token, isLast ? "length" : undefined);
  }

  #collect(event: ChatEvent): void {
    if (event.type === "delta") {
      this.#pending.text += event.text;
      this.#pending.logprobs.push(...event.logprobs ?? []);
      this.#pending.numTokens = event.numTokens ?? 0;
      return;
    }
    this.#flush();
    this.#emit(event);
  }

  #flush(): void {
    const { text, logprobs, numTokens } = this.#pending;
    if (text === "" && logprobs.length === 0) return;
    this.#pending = { text: "", logprobs: [], numTokens };
    this.#emit({
      type: "delta",
      index: 0,
      text,
      numTokens,
      logprobs: logprobs.length === 0 ? undefined : logprobs,
    });
  }

  #decodeToken(id: number): string {
    if (id === SEPARATORS.space) return " ";
    return id === SEPARATORS.newline ? "\n" : this.#characters[id] ?? "";
  }
}

/** A separator as a token with probability 1: no network predicted it. */
function certain(tokenId: number): SampledToken {
  return { tokenId, logprob: 0, top: [] };
}

function toToken({ id, probability, top }: LineCharacter): SampledToken {
  return {
    tokenId: id,
    logprob: toLogprob(probability),
    top: top.map((rival) => ({ tokenId: rival.id, logprob: toLogprob(rival.probability) })),
  };
}

/** The logarithm, made finite as JSON requires. */
function toLogprob(probability: number): number {
  return Math.log(Math.max(probability, LEAST_PROBABILITY));
}
