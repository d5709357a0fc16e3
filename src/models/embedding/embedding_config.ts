/**
 * The configuration of an embedding model (pooling, normalisation, prompts) from the files of sentence-transformers.
 *
 * @see https://www.sbert.net/docs/package_reference/sentence_transformer/models.html
 * @module
 */
import { isRecord } from "../../base/json.ts";
import { StartupError } from "../../base/errors.ts";
import { type Json, type ModelFolder, readJson, readNumber } from "../../hub/model_folder.ts";
import type { PoolingMode } from "./pooling.ts";

type InputType = "query" | "document";

/** The settings with which an embedding model turns texts into vectors. */
export interface EmbeddingConfig {
  /** The pooling modes, whose results are concatenated. */
  readonly pooling: readonly PoolingMode[];
  /** Whether the folder configures pooling, rather than leaving it to the graph or to known defaults. */
  readonly isPoolingGiven: boolean;
  /** Whether the tokens of prompts are excluded from pooling. */
  readonly skipsPrompt: boolean;
  /** Whether vectors are normalised to length 1. */
  readonly normalizes: boolean;
  /** The prompt to put before a text, by the text's type; `none` is for texts without a type. */
  readonly prompts: Readonly<Record<InputType | "none", string>>;
  /** The prompts that the folder gives, by name. */
  readonly namedPrompts: ReadonlyMap<string, string>;
  /** Whether vectors may be truncated (Matryoshka). */
  readonly isMatryoshka: boolean;
  /** Default number of elements of a vector; all if absent. */
  readonly dimensions: number | undefined;
  /** A module with weights that follows pooling. If there is one, it must be part of the graph. */
  readonly laterLayer: string | undefined;
}

/** Reads the configuration. Missing values are looked up by `modelName`. */
export async function readEmbeddingConfig(
  folder: ModelFolder,
  modelName: string,
): Promise<EmbeddingConfig> {
  const known = findKnownDefaults(modelName);
  const modules = readModules(folder);
  const poolingPath = modules?.find(({ type }) => type === "Pooling")?.path ?? "1_Pooling";
  const poolingFile = `${poolingPath}/config.json`;
  const settings = readSentenceSettings(folder);
  const isPoolingGiven = folder.files.has(poolingFile);
  const pooling = isPoolingGiven ? await readJson(folder.path, poolingFile) : {};
  const skipsPrompt = pooling["include_prompt"] === false;
  const modes = isPoolingGiven
    ? readPooling(pooling, `${folder.path}/${poolingFile}`)
    : [known.pooling];
  const dimensions = readNumber(settings, "truncate_dim");
  return {
    isPoolingGiven,
    skipsPrompt,
    // Without the prompt, the first token that counts is no longer CLS.
    pooling: skipsPrompt ? modes.map((mode) => mode === "cls" ? "first" : mode) : modes,
    // `normalize` is a setting of model2vec.
    normalizes: modules?.some(({ type }) => type === "Normalize") ??
      folder.config["normalize"] !== false,
    ...readPrompts(settings, { query: known.query ?? "", document: known.document ?? "" }),
    isMatryoshka: known.isMatryoshka === true || folder.config["is_matryoshka"] === true ||
      Array.isArray(folder.config["matryoshka_dimensions"]) || dimensions !== undefined,
    dimensions,
    laterLayer: modules?.find(({ type }) => !WITHOUT_WEIGHTS.has(type))?.type,
  };
}

/** Modules of sentence-transformers that need no weights outside the graph. */
const WITHOUT_WEIGHTS = new Set([
  "Transformer",
  "StaticEmbedding",
  "Pooling",
  "Normalize",
  "Dropout",
]);

/** Boolean fields of a pooling configuration, in the order in which the results are concatenated. */
const POOLING_SWITCHES: readonly (readonly [string, PoolingMode])[] = [
  ["pooling_mode_cls_token", "cls"],
  ["pooling_mode_max_tokens", "max"],
  ["pooling_mode_mean_tokens", "mean"],
  ["pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len"],
  ["pooling_mode_weightedmean_tokens", "weightedmean"],
  ["pooling_mode_lasttoken", "lasttoken"],
];

/** Values of `pooling_mode`, which replaces the boolean fields in newer versions of sentence-transformers. */
const POOLING_WORDS: ReadonlyMap<unknown, PoolingMode> = new Map([
  ["cls", "cls"],
  ["max", "max"],
  ["mean", "mean"],
  ["mean_sqrt_len_tokens", "mean_sqrt_len"],
  ["weightedmean", "weightedmean"],
  ["lasttoken", "lasttoken"],
]);

/** @throws {StartupError} naming the file and the unknown pooling mode. */
function readPooling(config: Json, file: string): PoolingMode[] {
  const words = config["pooling_mode"];
  if (words === undefined) {
    const modes = POOLING_SWITCHES.filter(([name]) => config[name] === true).map(([, mode]) =>
      mode
    );
    // sentence-transformers, too, uses the mean if all fields are false.
    return modes.length > 0 ? modes : ["mean"];
  }
  const listed = [words].flat();
  const modes = listed.flatMap((word) => POOLING_WORDS.get(word) ?? []);
  if (modes.length === listed.length && modes.length > 0) return modes;
  throw new StartupError(
    `${file}: pooling_mode: want one or more of ${[...POOLING_WORDS.keys()].join(", ")}, saw ${
      JSON.stringify(words)
    }.`,
  );
}

/** Usual names of prompts, by purpose. */
const PROMPT_NAMES: Readonly<Record<InputType, readonly string[]>> = {
  query: ["query", "search_query", "retrieval.query", "web_search_query", "s2p_query"],
  document: ["document", "passage", "search_document", "retrieval.passage", "corpus"],
};

/** Guesses the purpose of a prompt from its name; `undefined` if the name is unusual. */
export function guessPromptPurpose(name: string): InputType | undefined {
  return (["query", "document"] as const).find((purpose) => PROMPT_NAMES[purpose].includes(name));
}

function readPrompts(
  settings: Json,
  known: Readonly<Record<InputType, string>>,
): Pick<EmbeddingConfig, "prompts" | "namedPrompts"> {
  const given = Object.entries((settings["prompts"] ?? {}) as Json);
  const namedPrompts = new Map(
    given.filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
  const find = (names: readonly string[]) =>
    names.map((name) => namedPrompts.get(name)).find((prompt) => prompt !== undefined);
  return {
    namedPrompts,
    prompts: {
      query: find(PROMPT_NAMES.query) ?? known.query,
      document: find(PROMPT_NAMES.document) ?? known.document,
      none: find([String(settings["default_prompt_name"])]) ?? "",
    },
  };
}

/** Values that are used if the folder lacks them. */
interface KnownDefaults {
  readonly pooling: PoolingMode;
  readonly query?: string;
  readonly document?: string;
  /** Whether prefixes of the vectors are usable vectors (Matryoshka representation learning). */
  readonly isMatryoshka?: true;
}

const SEARCH_ENGLISH = "Represent this sentence for searching relevant passages: ";

/**
 * Default values by patterns of model names. Exports for transformers.js often have only the graph and the tokenizer.
 * The values come from the model cards.
 */
const KNOWN: readonly (readonly [RegExp, KnownDefaults])[] = [
  [/bge-(small|base|large)-en/i, { pooling: "cls", query: SEARCH_ENGLISH }],
  [/bge-(small|base|large)-zh/i, {
    pooling: "cls",
    query: "为这个句子生成表示以用于检索相关文章：",
  }],
  [/bge-m3/i, { pooling: "cls" }],
  [/\be5-(small|base|large)(-v2|-unsupervised)?\b(?!-instruct)/i, {
    pooling: "mean",
    query: "query: ",
    document: "passage: ",
  }],
  [/nomic-embed-text/i, {
    pooling: "mean",
    query: "search_query: ",
    document: "search_document: ",
    isMatryoshka: true,
  }],
  [/mxbai-embed/i, { pooling: "cls", query: SEARCH_ENGLISH, isMatryoshka: true }],
  [/arctic-embed-[lm]-v2/i, { pooling: "cls", query: "query: ", isMatryoshka: true }],
  [/arctic-embed/i, { pooling: "cls", query: SEARCH_ENGLISH }],
  [/gte-(modernbert|\w+-en-v1\.5|multilingual)/i, { pooling: "cls" }],
  [/qwen3-embedding/i, {
    pooling: "lasttoken",
    query:
      "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    isMatryoshka: true,
  }],
  [/embeddinggemma/i, {
    pooling: "mean",
    query: "task: search result | query: ",
    document: "title: none | text: ",
    isMatryoshka: true,
  }],
];

/** Looks up the values for a model's name; mean pooling, the most common, for unknown names. */
export function findKnownDefaults(modelName: string): KnownDefaults {
  return KNOWN.find(([pattern]) => pattern.test(modelName))?.[1] ?? { pooling: "mean" };
}

const MODULES = "modules.json";
/** The main settings; since version 5 of sentence-transformers they include the kind of model. */
const SETTINGS = "config_sentence_transformers.json";

/** A module of sentence-transformers: one step from the text to the result. */
interface SentenceModule {
  /**
   * Name of the Python class, without its path, which differs between versions: `sentence_transformers.models.Pooling`
   * became `sentence_transformers.sentence_transformer.modules.pooling.Pooling`.
   */
  readonly type: string;
  /** The module's folder, relative to the model's. */
  readonly path: string;
}

/** Modules that do not result in one vector per text, with the kind of model that has them. */
const OTHER_MODELS: Readonly<Record<string, string>> = {
  SpladePooling: "SparseEncoder",
  MLMTransformer: "SparseEncoder",
  SparseAutoEncoder: "SparseEncoder",
  SparseStaticEmbedding: "SparseEncoder",
  MultiVectorMask: "MultiVectorEncoder",
  TokenPooling: "MultiVectorEncoder",
  LogitScore: "CrossEncoder",
};

/**
 * Reads the modules in `modules.json`; `undefined` if the folder has no such file.
 *
 * @throws {StartupError} naming the file and the field that is invalid.
 */
export function readModules(
  { path, identity }: ModelFolder,
): readonly SentenceModule[] | undefined {
  const modules = identity?.[MODULES];
  if (modules === undefined) return undefined;
  const refuse = (what: string): never => {
    throw new StartupError(`${path}/${MODULES}: ${what}.`);
  };
  if (!Array.isArray(modules)) return refuse("want an array of modules");
  return modules.map((each: unknown, index): SentenceModule => {
    if (!isRecord(each) || typeof each["type"] !== "string") {
      return refuse(`[${index}].type: want the name of a Python class`);
    }
    const folder = each["path"] ?? "";
    if (typeof folder !== "string") return refuse(`[${index}].path: want a folder's name`);
    return { type: each["type"].split(".").at(-1)!, path: folder };
  });
}

/** Returns the content of `config_sentence_transformers.json`; empty if there is no such file. */
function readSentenceSettings({ path, identity }: ModelFolder): Json {
  const settings = identity?.[SETTINGS] ?? {};
  if (isRecord(settings)) return settings;
  throw new StartupError(`${path}/${SETTINGS} does not hold a JSON object.`);
}

/**
 * Finds the kind of model that sentence-transformers saved: `SentenceTransformer`, `CrossEncoder`, `SparseEncoder` or
 * `MultiVectorEncoder`; `undefined` if the folder does not show it.
 */
export function findSentenceModelType(folder: ModelFolder): string | undefined {
  const { model_type: given, similarity_fn_name: similarity } = readSentenceSettings(folder);
  if (typeof given === "string") return given;
  // PyLate saves its models with this.
  if (similarity === "MaxSim") return "MultiVectorEncoder";
  const modules = readModules(folder) ?? [];
  const other = modules.map(({ type }) => OTHER_MODELS[type]).find((type) => type !== undefined);
  if (other !== undefined) return other;
  // A Transformer without pooling may be a cross-encoder: its architecture decides.
  const pools = modules.some(({ type }) => type === "Pooling" || type === "StaticEmbedding");
  return pools || folder.files.has("1_Pooling/config.json") ? "SentenceTransformer" : undefined;
}
