/**
 * Models as the model list shows them.
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
    .describe("Tokens of prompt and completion together that are served, where there is a limit"),
  context_length: integerFrom(1).optional().describe("The same by another name"),
  meta: z.object({
    n_ctx: integerFrom(1).describe("The same by llama.cpp's name"),
    n_ctx_train: integerFrom(1).describe("Tokens that the model was made for"),
  }).optional(),
}).meta({ id: "Model" });

/** The loaded model, in a list. */
export const ModelList = z.object({ object: z.literal("list"), data: z.array(ModelObject) })
  .meta({ id: "ModelList" });

/** The same with what clients of speech APIs read. */
export const AudioModelList = ModelList.extend({
  models: z.array(z.object({ id: z.string(), name: z.string() })),
}).meta({ id: "AudioModelList" });

/** What the list says of a model. */
interface ListedModel {
  readonly id: string;
  /** `null` to leave it out of the answer. */
  readonly createdSeconds: number | null;
  readonly ownedBy: string;
  readonly contextLength: number | undefined;
  readonly maxModelLength: number | undefined;
}

/** The object of one model. */
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

/** The list that holds just this model. */
export function modelList(model: ListedModel): z.output<typeof ModelList> {
  return { object: "list", data: [modelObject(model)] };
}
