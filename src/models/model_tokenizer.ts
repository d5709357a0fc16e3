/**
 * Tokenizer requests to a model of any kind.
 *
 * @module
 */
import { HearthError } from "../errors.ts";
import type { ModelKind } from "../config.ts";
import type { TokenText } from "./token_text.ts";
import type { TextTokenizer } from "./tokenizer.ts";
import type { ChatTask, DetokenizeTask, TokenizeTask, TokenTaskEvent } from "./task.ts";

/** Longest text: a longer one would block the model's thread for too long. */
const MAX_CHARACTERS = 1_000_000;

/** The tokenizer operations of a model. */
export interface ModelTokenizer {
  readonly vocabSize: number;
  /** Token ids of a text; with `hasSpecial` including the special tokens around it. */
  encode(text: string, hasSpecial: boolean): readonly number[];
  /** The text of tokens, special ones as they are spelled. */
  decode(ids: readonly number[]): string;
  /** The text of a single token, and its bytes, which need not be whole characters. */
  pieceOf(id: number): TokenText;
  /** Renders a conversation; absent if the model does not chat. */
  readonly render?: (chat: Pick<ChatTask, "messages" | "prompt" | "tools">) => string;
}

/** The operations of a tokenizer. */
export function offerTokenizer(
  tokenizer: Pick<
    TextTokenizer,
    "decodeAll" | "encode" | "encodeWhole" | "tokenTexts" | "vocabSize"
  >,
  render?: ModelTokenizer["render"],
): ModelTokenizer {
  return {
    get vocabSize() {
      return tokenizer.vocabSize;
    },
    encode: (text, hasSpecial) => hasSpecial ? tokenizer.encodeWhole(text) : tokenizer.encode(text),
    decode: (ids) => tokenizer.decodeAll([...ids]),
    pieceOf: (id) => tokenizer.tokenTexts.of(id),
    ...(render && { render }),
  };
}

/**
 * Answers synchronously.
 *
 * @throws {HearthError} `unsupported_by_model` if the model has no tokenizer, or no chat template; `invalid_value` for
 * unknown tokens, and for texts that are too long.
 */
export function answerTokens(
  { kind, tokenizer }: {
    readonly kind: ModelKind;
    readonly tokenizer?: ModelTokenizer | undefined;
  },
  task: TokenizeTask | DetokenizeTask,
): TokenTaskEvent {
  if (tokenizer === undefined) {
    throw new HearthError(
      "unsupported_by_model",
      `The tokenizer of the loaded model (${kind}) is not served.`,
    );
  }
  if (task.type === "detokenize") {
    const { tokens } = task;
    requireTokenIds(tokens, tokenizer.vocabSize, (index) => `tokens[${index}]`);
    // Decoders refuse an empty list.
    return { type: "done", tokens, text: tokens.length === 0 ? "" : tokenizer.decode(tokens) };
  }
  const text = textOf(task, tokenizer);
  if (text.length > MAX_CHARACTERS) {
    throw new HearthError(
      "invalid_value",
      `The text has ${text.length} characters; at most ${MAX_CHARACTERS} are tokenized at once.`,
    );
  }
  const tokens = task.onlyRenders
    ? []
    : tokenizer.encode(text, task.chat === undefined && task.hasSpecial);
  const pieces = task.withPieces ? tokens.map((id) => tokenizer.pieceOf(id)) : undefined;
  return { type: "done", tokens, pieces, text };
}

/** @throws {HearthError} `invalid_value` naming the first id that is beyond the vocabulary. */
export function requireTokenIds(
  ids: readonly number[],
  vocabSize: number,
  paramOf: (index: number) => string,
): void {
  const bad = ids.findIndex((id) => id >= vocabSize);
  if (bad < 0) return;
  const param = paramOf(bad);
  throw new HearthError(
    "invalid_value",
    `${param}: want a token id from 0 to ${vocabSize - 1}, saw ${ids[bad]}.`,
    { param },
  );
}

function textOf({ text, chat }: TokenizeTask, { render }: ModelTokenizer): string {
  if (chat === undefined) return text;
  if (render !== undefined) return render(chat);
  throw new HearthError(
    "unsupported_by_model",
    "messages: the loaded model renders no conversations.",
    { param: "messages" },
  );
}
