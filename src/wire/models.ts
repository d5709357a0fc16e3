/**
 * The served model in the API: its entry in the model list, its endpoints, and the names that it answers to.
 *
 * @module
 */
import { ANY_NAME, type ModelKind } from "../base/config.ts";
import { HearthError } from "../base/errors.ts";
import { z } from "zod";
import { integerFrom } from "./fields.ts";

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
  | "/embed"
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
  embedding: ["/embeddings", "/embed", "/v2/embed"],
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

export const ModelObject = z.object({
  object: z.literal("model"),
  id: z.string(),
  created: integerFrom(0).nullable().describe(
    "On /v1/models, when the model's files were written, in seconds since 1970; null on /models",
  ),
  owned_by: z.string(),
  max_model_len: integerFrom(1).optional()
    .describe(
      "Maximum number of tokens of prompt and completion together; absent if there is no limit",
    ),
  context_length: integerFrom(1).optional().describe("The same as max_model_len"),
  meta: z.object({
    n_ctx: integerFrom(1).describe("llama.cpp's name for max_model_len"),
    n_ctx_train: integerFrom(1).describe("Tokens of context that the model was trained for"),
  }).optional(),
}).meta({ id: "Model" });

/** The model list, which holds only the loaded model. */
export const ModelList = z.object({ object: z.literal("list"), data: z.array(ModelObject) })
  .meta({ id: "ModelList" });

/** The model list with `models`, the field that clients of speech APIs read. */
export const AudioModelList = ModelList.extend({
  models: z.array(z.object({ id: z.string(), name: z.string() })),
}).meta({ id: "AudioModelList" });

/** What the list shows about a model. */
interface ListedModel {
  readonly id: string;
  /** Time when the model's files were written, in seconds since 1970; `null` on `/models`. */
  readonly createdSeconds: number | null;
  readonly ownedBy: string;
  readonly contextLength: number | undefined;
  readonly maxModelLength?: number | undefined;
}

/** Builds the object of one model. */
export function makeModelObject(model: ListedModel): z.output<typeof ModelObject> {
  const { id, ownedBy, createdSeconds, contextLength, maxModelLength } = model;
  const served = maxModelLength ?? contextLength;
  return {
    object: "model",
    id,
    created: createdSeconds,
    owned_by: ownedBy,
    ...(served !== undefined && { max_model_len: served, context_length: served }),
    ...(contextLength !== undefined && {
      meta: { n_ctx: served ?? contextLength, n_ctx_train: contextLength },
    }),
  };
}

/** Builds a list that holds only this model. */
export function makeModelList(model: ListedModel): z.output<typeof ModelList> {
  return { object: "list", data: [makeModelObject(model)] };
}
