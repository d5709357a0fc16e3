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
  created: integerFrom(0).nullable().describe("Always null"),
  owned_by: z.string(),
}).meta({ id: "Model" });

/** The loaded model, in a list. */
export const ModelList = z.object({ object: z.literal("list"), data: z.array(ModelObject) })
  .meta({ id: "ModelList" });

/** The object of one model. */
export function modelObject(
  model: { id: string; ownedBy: string },
): z.output<typeof ModelObject> {
  return { object: "model", id: model.id, created: null, owned_by: model.ownedBy };
}

/** The list that holds just this model. */
export function modelList(model: { id: string; ownedBy: string }): z.output<typeof ModelList> {
  return { object: "list", data: [modelObject(model)] };
}
