/**
 * Answers tokenizer requests for models of any kind.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import type { Model } from "../model.ts";
import type { DetokenizeTask, TokenizeTask, TokenTaskEvent } from "../task.ts";

/** Longest text. It takes seconds, during which other requests are slower. */
const MAX_CHARACTERS = 1_000_000;

/**
 * Answers a request, yielding to the thread's other work.
 *
 * @throws {HearthError} `unsupported_by_model` if the model has no tokenizer, or no chat template; `invalid_value` for
 * unknown tokens, and for texts that are too long; the signal's reason.
 */
export async function answerTokens(
  model: Model,
  task: TokenizeTask | DetokenizeTask,
  signal: AbortSignal,
): Promise<TokenTaskEvent> {
  const { tokenizer } = model;
  if (tokenizer === undefined) {
    throw new HearthError(
      "unsupported_by_model",
      `The tokenizer of the loaded model (${model.kind}) is not served.`,
    );
  }
  if (task.type === "detokenize") {
    const { tokens } = task;
    requireTokenIds(tokens, tokenizer.vocabSize, (index) => `tokens[${index}]`);
    return { type: "done", tokens, text: tokenizer.decodeAll([...tokens]) };
  }
  const text = renderText(task, model);
  if (text.length > MAX_CHARACTERS) {
    throw new HearthError(
      "invalid_value",
      `The text has ${text.length} characters; at most ${MAX_CHARACTERS} are tokenized at once.`,
    );
  }
  const hasSpecial = task.chat === undefined && task.hasSpecial;
  const tokens = task.onlyRenders
    ? []
    : await tokenizer.encodeInSlices(text, { hasSpecial, isPrompt: false, signal });
  const pieces = task.withPieces ? tokens.map((id) => tokenizer.tokenTexts.of(id)) : undefined;
  return { type: "done", tokens, pieces, text };
}

/** @throws {HearthError} `invalid_value` naming the first id beyond the vocabulary. */
export function requireTokenIds(
  ids: readonly number[],
  vocabSize: number,
  nameParam: (index: number) => string,
): void {
  const bad = ids.findIndex((id) => id >= vocabSize);
  if (bad < 0) return;
  const param = nameParam(bad);
  throw new HearthError(
    "invalid_value",
    `${param}: want a token id from 0 to ${vocabSize - 1}, saw ${
      ids[bad]
    }. Ids are the model's own: ` +
      "send text instead of another tokenizer's (LangChain: check_embedding_ctx_length=False).",
    { param },
  );
}

function renderText({ text, chat }: TokenizeTask, model: Model): string {
  if (chat === undefined) return text;
  if (model.render !== undefined) return model.render(chat);
  throw new HearthError(
    "unsupported_by_model",
    "messages: the loaded model renders no conversations.",
    { param: "messages" },
  );
}
