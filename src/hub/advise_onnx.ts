/**
 * Suggests what to use instead of a model that is not available as ONNX graphs.
 *
 * @module
 */
import { PROGRAM } from "../base/version.ts";
import { searchHub } from "./repository.ts";
import type { HubSettings } from "./cache.ts";
import { HUB_ID_OF_ALIAS } from "./catalogue.ts";

/** Most repositories that are named. */
const MAX_NAMED = 3;

/**
 * Names an ONNX repository of a model, from the catalogue or else from the hub's search.
 *
 * @param options.settings the hub to search; if absent or offline, it is not searched.
 * @param options.except id of a hub model that must not be named.
 * @returns sentences. The last one says what to do.
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

/** Words in names that do not tell which model it is. */
const NOISE = new Set([
  ...["gguf", "ggml", "onnx", "web", "opt", "instruct", "it", "chat", "hf", "latest", "text"],
  ...["mlx", "awq", "gptq", "imatrix", "ud", "qat", "v"],
]);
/** A quantization, with what follows it: `Q4_K_M`, `IQ3_XXS`, `fp16`, `4bit`. */
const QUANTIZATION = /[-_.:](i?q\d(_[a-z0-9]+)*|q4f16|b?fp?\d+|f\d+|int\d+|\d+-?bit)(?=$|[-_.:])/gi;

/** An entry of the catalogue that may be the model. */
interface OnnxModel {
  readonly alias: string;
  readonly hubId: string;
  /** Whether everything in the name matches, including its size. */
  readonly isSame: boolean;
}

/** The words and numbers of a name that tell which model it is: `qwen`, `3`, `0.6b`. */
function wordsOfModel(name: string): string[] {
  const base = name.replace(/^.*[\\/]/, "").replace(/\.gguf$/i, "").replace(QUANTIZATION, "");
  const words = base.toLowerCase().match(/\d+(\.\d+)*([bm](?![a-z]))?|[a-z]+/g) ?? [];
  return words.filter((word) => !NOISE.has(word));
}

/**
 * Finds entries of the catalogue that may be a model, the most likely first. `qwen3:0.6b` is the catalogue's
 * `qwen3-0.6b`.
 */
function findOnnxModels(name: string, limit = 3): OnnxModel[] {
  const wanted = wordsOfModel(name);
  if (wanted.length === 0) return [];
  return [...HUB_ID_OF_ALIAS]
    .map(([alias, hubId]) => ({ alias, hubId, ...compare(wanted, alias, hubId) }))
    .filter(({ isKin }) => isKin)
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ alias, hubId, isSame }) => ({ alias, hubId, isSame }));
}

/** Compares names. Related names begin with the same word, and have every word and the version that are wanted. */
function compare(
  wanted: readonly string[],
  alias: string,
  hubId: string,
): { isKin: boolean; isSame: boolean; score: number } {
  const own = wordsOfModel(alias);
  const known = new Set([...own, ...wordsOfModel(hubId)]);
  let numEqual = 0;
  let isKin = own[0] === wanted[0];
  for (const word of wanted) {
    if (known.has(word)) numEqual++;
    else if (isSize(word)) continue;
    else if (!/^\d/.test(word) || ![...known].some((other) => other.startsWith(`${word}.`))) {
      isKin = false;
    }
  }
  const numMore = own.filter((word) => !wanted.includes(word) && !isSize(word)).length;
  const hasSize = wanted.some(isSize);
  // A name without a size matches every size. A name without "vl" does not match a vision model.
  const isSame = numEqual === wanted.length && numMore === 0 && (hasSize || !own.some(isSize));
  return { isKin, isSame, score: 2 * numEqual - numMore };
}

function isSize(word: string): boolean {
  return /^\d+(\.\d+)*[bm]$/.test(word);
}
