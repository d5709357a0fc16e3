/**
 * Chat with models that read text from one image: parsing of requests, and events of answers.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { ChatEvent, ChatMessage, ChatTask, ChosenLogprob, ImagePart } from "../task.ts";
import type { SampledToken } from "../../decoder/decoder.ts";
import { type AnswerTokens, OutputProcessor } from "../text/output_processor.ts";
import type { LineCharacter } from "./text_recognition.ts";
import type { TextRow } from "./line_reader.ts";
import type { LineBox, Point } from "./line_boxes.ts";
import type { Pixels } from "../../media/pixels.ts";

/**
 * Reads the last user message.
 *
 * @throws {HearthError} `invalid_value` unless it has exactly one image.
 */
export function readOcrRequest(messages: readonly ChatMessage[]): {
  readonly image: ImagePart;
  /** The texts of all text parts, joined by line breaks; empty if there are none. */
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
 * Forwards a completion's events, but joins the deltas of each choice into one.
 *
 * @param finish converts a choice's complete text to its answer.
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

/** Token ids of the end and of separators between lines. The recogniser's classes have ids that start at 0. */
const SEPARATORS = { end: -1, space: -2, newline: -3 } as const;

const LEAST_PROBABILITY = 1e-30;

interface Pending {
  text: string;
  logprobs: ChosenLogprob[];
  /** Number of tokens of the answer so far. */
  numTokens: number;
}

/** Writes rows of recognised text as a chat answer, in which every character is a token. */
export class RowWriter implements AnswerTokens {
  readonly #output: OutputProcessor;
  readonly #maxTokens: number;
  #characters: readonly string[] = [];
  #numTokens = 0;
  #isFirst = true;
  #hasEnded = false;
  /** The text of the current row, which is sent as one delta: one per character would be too many messages. */
  #pending: Pending = { text: "", logprobs: [], numTokens: 0 };
  readonly #emit: (event: ChatEvent) => void;

  constructor({ options }: ChatTask, emit: (event: ChatEvent) => void) {
    this.#maxTokens = options.maxTokens ?? Infinity;
    this.#emit = emit;
    this.#output = new OutputProcessor({
      tokens: this,
      eosTokenIds: new Set([SEPARATORS.end]),
      // These options have no meaning here, as tokens are characters and the answer ends with the image.
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

  /** Writes a row. @returns whether more rows may be written. */
  write({ characters, lines }: TextRow): boolean {
    this.#characters = characters;
    if (!this.#isFirst) this.#push(makeSeparator(SEPARATORS.newline));
    this.#isFirst = false;
    lines.forEach((line, position) => {
      if (position > 0) this.#push(makeSeparator(SEPARATORS.space));
      for (const character of line.characters) this.#push(toToken(character));
    });
    this.#flush();
    return !this.#hasEnded;
  }

  /** Ends the answer, unless it has ended already. */
  end(): void {
    this.#push(makeSeparator(SEPARATORS.end));
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

/** Makes a separator token, with probability 1 as no network predicted it. */
function makeSeparator(tokenId: number): SampledToken {
  return { tokenId, logprob: 0, top: [] };
}

function toToken({ id, probability, top }: LineCharacter): SampledToken {
  return {
    tokenId: id,
    logprob: toLogprob(probability),
    top: top.map((rival) => ({ tokenId: rival.id, logprob: toLogprob(rival.probability) })),
  };
}

/** Computes the logarithm, with a lower bound, as JSON has no infinity. */
function toLogprob(probability: number): number {
  return Math.log(Math.max(probability, LEAST_PROBABILITY));
}

/**
 * Formats lines of text and their boxes as Florence-2 does.
 *
 * @param answer a text with one line per region, which may be truncated.
 */
export function formatRegions(
  answer: string,
  { boxes, pixels: { width, height } }: {
    readonly boxes: readonly LineBox[];
    readonly pixels: Pixels;
  },
): string {
  const labels = answer === "" ? [] : answer.split("\n");
  const within = ([x, y]: Point) => [clamp(x, width), clamp(y, height)];
  const corners = boxes.slice(0, labels.length)
    .map(({ topLeft, topRight, bottomRight, bottomLeft }) =>
      [topLeft, topRight, bottomRight, bottomLeft].flatMap(within)
    );
  return JSON.stringify({ labels, quad_boxes: corners });
}

function clamp(value: number, most: number): number {
  return Math.round(10 * Math.min(most, Math.max(0, value))) / 10;
}
