/**
 * Short names (aliases) for models on the Hugging Face hub, the built-in models, and suggestions of ONNX models in
 * place of models in other formats. Aliases are a convenience: any hub id or folder works too.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { type ModelKind, PROGRAM } from "../base/config.ts";
import type { HubSettings } from "./cache.ts";

/** Hub ids by kind and alias. */
export const CATALOGUE: Readonly<Record<ModelKind, Readonly<Record<string, string>>>> = {
  text: {
    "qwen3-0.6b": "onnx-community/Qwen3-0.6B-ONNX",
    "qwen3-1.7b": "onnx-community/Qwen3-1.7B-ONNX",
    "qwen3-4b": "onnx-community/Qwen3-4B-ONNX",
    "minicpm4-0.5b": "onnx-community/MiniCPM4-0.5B-ONNX",
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "smollm2-360m": "HuggingFaceTB/SmolLM2-360M-Instruct",
    "smollm3-3b": "HuggingFaceTB/SmolLM3-3B-ONNX",
    "llama-3.2-1b": "onnx-community/Llama-3.2-1B-Instruct",
    "gemma-3-270m": "onnx-community/gemma-3-270m-it-ONNX",
    "gemma-3-1b": "onnx-community/gemma-3-1b-it-ONNX",
    "granite-4-350m": "onnx-community/granite-4.0-350m-ONNX-web",
    "granite-4-1b": "onnx-community/granite-4.0-1b-ONNX-web",
    "granite-4-micro": "onnx-community/granite-4.0-micro-ONNX-web",
    "granite-4-h-350m": "onnx-community/granite-4.0-h-350m-ONNX",
    "granite-4-h-1b": "onnx-community/granite-4.0-h-1b-ONNX",
    "lfm2.5-350m": "LiquidAI/LFM2.5-350M-ONNX",
    "lfm2.5-1.2b": "LiquidAI/LFM2.5-1.2B-Instruct-ONNX",
    "gpt-oss-20b": "onnx-community/gpt-oss-20b-ONNX",
  },
  vision: {
    "qwen2-vl-2b": "onnx-community/Qwen2-VL-2B-Instruct",
    "qwen2.5-vl-3b": "onnx-community/Qwen2.5-VL-3B-Instruct-ONNX",
    "qwen3-vl-2b": "onnx-community/Qwen3-VL-2B-Instruct-ONNX",
    // Of each size of Qwen3.5 there is also another export, with which prompts take many times as long.
    "qwen3.5-0.8b": "onnx-community/Qwen3.5-0.8B-ONNX-OPT",
    "qwen3.5-2b": "onnx-community/Qwen3.5-2B-ONNX-OPT",
    "qwen3.5-4b": "onnx-community/Qwen3.5-4B-ONNX-OPT",
    "ministral-3-3b": "mistralai/Ministral-3-3B-Instruct-2512-ONNX",
    "smolvlm-256m": "HuggingFaceTB/SmolVLM-256M-Instruct",
    "smolvlm-500m": "HuggingFaceTB/SmolVLM-500M-Instruct",
    "lfm2-vl-450m": "onnx-community/LFM2-VL-450M-ONNX",
    "lfm2.5-vl-450m": "LiquidAI/LFM2.5-VL-450M-ONNX",
    "fastvlm-0.5b": "onnx-community/FastVLM-0.5B-ONNX",
    "gemma-4-e2b": "onnx-community/gemma-4-E2B-it-ONNX",
  },
  ocr: {
    "glm-ocr": "onnx-community/GLM-OCR-ONNX",
    "granite-docling-258m": "onnx-community/granite-docling-258M-ONNX",
    "pp-ocr-v5-server": "marsena/paddleocr-onnx-models",
    "pp-ocr-v4": "SWHL/RapidOCR",
    "trocr-small-printed": "Xenova/trocr-small-printed",
    "trocr-small-handwritten": "Xenova/trocr-small-handwritten",
    "florence-2-base": "onnx-community/Florence-2-base-ft",
    "donut-cord-v2": "Xenova/donut-base-finetuned-cord-v2",
    "donut-docvqa": "Xenova/donut-base-finetuned-docvqa",
  },
  asr: {
    "whisper-tiny": "onnx-community/whisper-tiny",
    "whisper-base": "onnx-community/whisper-base",
    "whisper-small": "onnx-community/whisper-small",
    "whisper-large-v3-turbo": "onnx-community/whisper-large-v3-turbo",
    "parakeet-tdt-0.6b-v2": "istupakov/parakeet-tdt-0.6b-v2-onnx",
    "parakeet-tdt-0.6b-v3": "istupakov/parakeet-tdt-0.6b-v3-onnx",
    "moonshine-tiny": "onnx-community/moonshine-tiny-ONNX",
    "moonshine-base": "onnx-community/moonshine-base-ONNX",
    "cohere-transcribe": "onnx-community/cohere-transcribe-03-2026-ONNX",
    "granite-4-1b-speech": "onnx-community/granite-4.0-1b-speech-ONNX",
    "voxtral-mini-3b": "onnx-community/Voxtral-Mini-3B-2507-ONNX",
  },
  tts: {
    "chatterbox": "onnx-community/chatterbox-ONNX",
    "kokoro-82m": "onnx-community/Kokoro-82M-v1.0-ONNX",
    "supertonic": "onnx-community/Supertonic-TTS-ONNX",
    "speecht5": "Xenova/speecht5_tts",
    "mms-tts-eng": "Xenova/mms-tts-eng",
  },
  matting: {
    "rmbg-1.4": "briaai/RMBG-1.4",
    "birefnet-lite": "onnx-community/BiRefNet_lite-ONNX",
    "ormbg": "onnx-community/ormbg-ONNX",
    "modnet": "Xenova/modnet",
  },
  embedding: {
    "all-minilm-l6-v2": "onnx-community/all-MiniLM-L6-v2-ONNX",
    "bge-small-en": "Xenova/bge-small-en-v1.5",
    "bge-m3": "Xenova/bge-m3",
    "nomic-embed-1.5": "nomic-ai/nomic-embed-text-v1.5",
    "qwen3-embedding-0.6b": "onnx-community/Qwen3-Embedding-0.6B-ONNX",
    "embeddinggemma-300m": "onnx-community/embeddinggemma-300m-ONNX",
    "embeddinggemma-2": "onnx-community/embeddinggemma-2-ONNX",
  },
  rerank: {
    "jina-reranker-tiny": "jinaai/jina-reranker-v1-tiny-en",
    "bge-reranker-base": "Xenova/bge-reranker-base",
    "mxbai-rerank-xsmall": "mixedbread-ai/mxbai-rerank-xsmall-v1",
    "qwen3-reranker-0.6b": "onnx-community/Qwen3-Reranker-0.6B-ONNX",
  },
};

/** Hub ids by alias, over all kinds. */
export const HUB_ID_OF_ALIAS: ReadonlyMap<string, string> = new Map(
  Object.values(CATALOGUE).flatMap((aliases) => Object.entries(aliases)),
);

/** The aliases of a hub model, by its `owner/name`. */
export function listAliases(hubId: string): string[] {
  return [...HUB_ID_OF_ALIAS].filter(([, known]) => known === hubId).map(([alias]) => alias);
}

// The models that come with Hearth: the folders of `models/` next to the source code, or inside the compiled program.

/** The model that is served if none is named. */
export const DEFAULT_MODEL = "hearth-demo-chat";

/** The owner of the built-in models. */
export const BUILT_IN_OWNER = "hearth";

const MODELS_FOLDER = fileURLToPath(new URL("../../models/", import.meta.url));

/** The names of all built-in models. */
export async function listBuiltIn(): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(MODELS_FOLDER));
  return entries.filter((entry) => entry.isDirectory).map((entry) => entry.name).sort();
}

/** The folder of a built-in model; `undefined` if there is none with this name. */
export async function findBuiltIn(name: string): Promise<string | undefined> {
  return (await listBuiltIn()).includes(name) ? `${MODELS_FOLDER}${name}` : undefined;
}

/** Maximum number of models that are suggested. */
const MAX_NAMED = 3;

/**
 * Suggests ONNX models in place of a model in another format or of an unknown name. They come from the catalogue, or
 * else from a search of the hub.
 *
 * @param options.settings the hub to search; if absent or offline, it is not searched.
 * @param options.except id of a hub model that must not be suggested.
 * @returns sentences. The last one says what to do.
 */
export async function adviseOnnx(
  name: string,
  { settings, except }: { readonly settings?: HubSettings | undefined; readonly except?: string } =
    {},
): Promise<string> {
  const known = findOnnxModels(name);
  const same = known.find(({ isSame }) => isSame);
  if (same !== undefined) {
    return `This model in ONNX format is ${same.hubId}. Use its alias: ${PROGRAM} run ${same.alias}.`;
  }
  const found = known.length > 0 || settings === undefined || settings.isOffline
    ? []
    : (await search(name, settings)).filter((id) => id !== except).slice(0, MAX_NAMED);
  if (found.length > 0) {
    return `ONNX models with a similar name on the hub: ${found.join(", ")}. Use one of them.`;
  }
  if (known.length > 0) {
    const names = known.map(({ alias, hubId }) => `${alias} (${hubId})`).join(", ");
    return `Models of this family in the catalogue: ${names}. Use one of them.`;
  }
  return "Look for an ONNX version of it at https://huggingface.co/models?library=transformers.js, and " +
    `name it as owner/name. ${PROGRAM} list shows the catalogue.`;
}

async function search(name: string, settings: HubSettings): Promise<string[]> {
  const words = listWords(name).join(" ");
  if (words === "") return [];
  // Imported on demand, because few starts need it.
  const { searchHub } = await import("./repository.ts");
  return await searchHub(settings, { words, filter: "transformers.js" });
}

/** Words in names that do not identify a model. */
const NOISE = new Set([
  ...["gguf", "ggml", "onnx", "web", "opt", "instruct", "it", "chat", "hf", "latest", "text"],
  ...["mlx", "awq", "gptq", "imatrix", "ud", "qat", "v"],
]);
/** A quantization within a name: `Q4_K_M`, `IQ3_XXS`, `fp16`, `4bit`. */
const QUANTIZATION = /[-_.:](i?q\d(_[a-z0-9]+)*|q4f16|b?fp?\d+|f\d+|int\d+|\d+-?bit)(?=$|[-_.:])/gi;

/** An entry of the catalogue that may be the wanted model. */
interface OnnxModel {
  readonly alias: string;
  readonly hubId: string;
  /** Whether everything in the wanted name matches, including the size. */
  readonly isSame: boolean;
}

/** Lists the words and numbers of a name that identify the model: `qwen`, `3`, `0.6b`. */
function listWords(name: string): string[] {
  const base = name.replace(/^.*[\\/]/, "").replace(/\.gguf$/i, "").replace(QUANTIZATION, "");
  const words = base.toLowerCase().match(/\d+(\.\d+)*([bm](?![a-z]))?|[a-z]+/g) ?? [];
  return words.filter((word) => !NOISE.has(word));
}

/**
 * Finds entries of the catalogue that may be a model, the most likely first. `qwen3:0.6b` is the catalogue's
 * `qwen3-0.6b`.
 */
function findOnnxModels(name: string): OnnxModel[] {
  const wanted = listWords(name);
  if (wanted.length === 0) return [];
  return [...HUB_ID_OF_ALIAS]
    .map(([alias, hubId]) => ({ alias, hubId, ...compare(wanted, alias, hubId) }))
    .filter(({ isRelated }) => isRelated)
    .sort((a, b) => b.score - a.score)
    .slice(0, MAX_NAMED);
}

/**
 * Compares a wanted name with an entry of the catalogue. The two are related if they begin with the same word, and the
 * entry has the wanted version and every other wanted word. The size may differ.
 */
function compare(
  wanted: readonly string[],
  alias: string,
  hubId: string,
): { isRelated: boolean; isSame: boolean; score: number } {
  const own = listWords(alias);
  const known = new Set([...own, ...listWords(hubId)]);
  let numEqual = 0;
  let isRelated = own[0] === wanted[0];
  for (const word of wanted) {
    if (known.has(word)) numEqual++;
    else if (isSize(word)) continue;
    else if (!/^\d/.test(word) || ![...known].some((other) => other.startsWith(`${word}.`))) {
      isRelated = false;
    }
  }
  const numMore = own.filter((word) => !wanted.includes(word) && !isSize(word)).length;
  const hasSize = wanted.some(isSize);
  // A name without a size is not the same as an entry with one, nor a name without "vl" as a vision model.
  const isSame = numEqual === wanted.length && numMore === 0 && (hasSize || !own.some(isSize));
  return { isRelated, isSame, score: 2 * numEqual - numMore };
}

function isSize(word: string): boolean {
  return /^\d+(\.\d+)*[bm]$/.test(word);
}
