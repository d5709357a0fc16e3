/**
 * Tells which endpoints a model serves, and whether a request is meant for the model.
 *
 * @module
 */
import type { ModelKind } from "../base/config.ts";
import { HearthError } from "../base/errors.ts";

/** The endpoints that run the model. */
export type InferencePath =
  | "/chat/completions"
  | "/responses"
  | "/responses/input_tokens"
  | "/messages"
  | "/messages/count_tokens"
  | "/completions"
  | "/audio/speech"
  | "/audio/transcriptions"
  | "/audio/translations"
  | "/realtime"
  | "/images/remove_background"
  | "/embeddings"
  | "/v2/embed"
  | "/score"
  | "/rerank";

const CHAT = [
  "/chat/completions",
  "/responses",
  "/responses/input_tokens",
  "/messages",
  "/messages/count_tokens",
] as const;

const SERVED_BY_KIND: Readonly<Record<ModelKind, readonly InferencePath[]>> = {
  text: [...CHAT, "/completions"],
  vision: CHAT,
  ocr: ["/chat/completions", "/responses", "/messages"],
  asr: ["/chat/completions", "/audio/transcriptions", "/audio/translations", "/realtime"],
  tts: ["/audio/speech"],
  matting: ["/images/remove_background"],
  embedding: ["/embeddings", "/v2/embed"],
  rerank: ["/rerank", "/score"],
};

/** Whether models of a kind serve a path. */
export function servesPath(kind: ModelKind, path: string): boolean {
  return SERVED_BY_KIND[kind].some((each) => each === path);
}

interface Model {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly kind: ModelKind;
}

/**
 * Checks that a model of this kind serves `path`.
 *
 * @param asked the path for the error message, if it differs from `path`.
 * @throws {HearthError} `unsupported_by_model`.
 */
export function requireEndpoint(model: Model, path: InferencePath, asked: string = path): void {
  const served = SERVED_BY_KIND[model.kind];
  if (served.includes(path)) return;
  throw new HearthError(
    "unsupported_by_model",
    `The loaded model ${model.id} (${model.kind}) does not serve ${asked}; it serves ${
      served.join(", ")
    }.`,
  );
}

/** If this is among a model's other names, the model answers to every name. */
export const ANY_NAME = "*";

/**
 * Checks the model name of a request.
 *
 * @throws {HearthError} `model_not_found` unless `name` is the model's id or one of its other names.
 */
export function requireModelName(model: Model, name: string): void {
  if (name === model.id || model.aliases.some((each) => each === name || each === ANY_NAME)) return;
  throw new HearthError(
    "model_not_found",
    `The model ${JSON.stringify(name.slice(0, 100))} is not loaded; this server has ${model.id}. ` +
      "For clients that cannot change the name, --model-alias adds names, and with " +
      "--any-model the server accepts every name.",
    { param: "model" },
  );
}
