/**
 * What to take in place of a model that is not there as ONNX graphs.
 *
 * @module
 */
import { PROGRAM } from "../base/version.ts";
import { findOnnxModels, wordsOfModel } from "./onnx_models.ts";
import { searchHub } from "./search.ts";
import type { HubSettings } from "./settings.ts";

/** How many are named. */
const MAX_NAMED = 3;

/**
 * Names the ONNX repository of a model, out of the catalogue, or else of what the hub's search finds.
 *
 * @param options.settings the hub to ask; absent, or offline, nothing is asked.
 * @param options.except the hub's own id of what is not to be named.
 * @returns sentences, the last one with what to do.
 */
export async function adviseOnnx(
  name: string,
  { settings, except }: { readonly settings?: HubSettings | undefined; readonly except?: string } =
    {},
): Promise<string> {
  const known = findOnnxModels(name, MAX_NAMED);
  const same = known.find(({ isSame }) => isSame);
  if (same !== undefined) {
    return `This model as ONNX is ${same.hubId}: name it with ${same.alias}, as in ${PROGRAM} run ${same.alias}.`;
  }
  const found = known.length > 0 || settings === undefined || settings.isOffline
    ? []
    : (await search(name, settings)).filter((id) => id !== except).slice(0, MAX_NAMED);
  if (found.length > 0) {
    return `Of that name the hub has as ONNX: ${found.join(", ")}. Name one of them.`;
  }
  if (known.length > 0) {
    const names = known.map(({ alias, hubId }) => `${alias} (${hubId})`).join(", ");
    return `The catalogue has of this family: ${names}. Name one of them.`;
  }
  return "Look for its ONNX form at https://huggingface.co/models?library=transformers.js, and name " +
    `it as owner/name; ${PROGRAM} list shows the catalogue.`;
}

async function search(name: string, settings: HubSettings): Promise<string[]> {
  const words = wordsOfModel(name).join(" ");
  if (words === "") return [];
  return await searchHub(settings, { words, filter: "transformers.js" });
}
