/**
 * Models as the model list describes them.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";

/** One model. */
export const ModelObject = z.object({
  object: z.literal("model"),
  id: z.string(),
  created: integerFrom(0).nullable().describe(
    "When its files were written, in seconds since 1970, on /v1/models; null on /models",
  ),
  owned_by: z.string(),
  max_model_len: integerFrom(1).optional()
    .describe("Most tokens of prompt and completion together; absent if there is no limit"),
  context_length: integerFrom(1).optional().describe("The same as max_model_len"),
  meta: z.object({
    n_ctx: integerFrom(1).describe("llama.cpp's name for max_model_len"),
    n_ctx_train: integerFrom(1).describe("Tokens of context that the model was trained for"),
  }).optional(),
}).meta({ id: "Model" });

/** A list of the loaded model. */
export const ModelList = z.object({ object: z.literal("list"), data: z.array(ModelObject) })
  .meta({ id: "ModelList" });

/** The same list with the field that clients of speech APIs read. */
export const AudioModelList = ModelList.extend({
  models: z.array(z.object({ id: z.string(), name: z.string() })),
}).meta({ id: "AudioModelList" });

/** What the list says about a model. */
interface ListedModel {
  readonly id: string;
  /** Seconds since 1970; `null` leaves it out of the answer. */
  readonly createdSeconds: number | null;
  readonly ownedBy: string;
  readonly contextLength: number | undefined;
  readonly maxModelLength: number | undefined;
}

/** Builds the object of one model. */
export function modelObject(model: ListedModel): z.output<typeof ModelObject> {
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

/** Builds a list of just this model. */
export function modelList(model: ListedModel): z.output<typeof ModelList> {
  return { object: "list", data: [modelObject(model)] };
}
