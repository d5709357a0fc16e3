/**
 * What sentence-transformers writes into a folder: the modules in `modules.json`, and the kind of model in
 * `config_sentence_transformers.json` (since version 5).
 *
 * The path of a Python class differs between versions: `sentence_transformers.models.Pooling` became
 * `sentence_transformers.sentence_transformer.modules.pooling.Pooling`. So only its last part is compared.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { isJson, type Json, type ModelFolder } from "../../hub/model_folder.ts";

const MODULES = "modules.json";
const SETTINGS = "config_sentence_transformers.json";

/** A step from text to result. */
interface SentenceModule {
  /** The last part of the Python class's name. */
  readonly type: string;
  /** Its folder, relative to the model's. */
  readonly path: string;
}

/** Modules that do not give one vector per text, and the kind of model that has them. */
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
 * The modules; `undefined` if the folder names none.
 *
 * @throws {StartupError} naming the file and the field.
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
    if (!isJson(each) || typeof each["type"] !== "string") {
      return refuse(`[${index}].type: want the name of a Python class`);
    }
    const place = each["path"] ?? "";
    if (typeof place !== "string") return refuse(`[${index}].path: want a folder's name`);
    return { type: each["type"].split(".").at(-1)!, path: place };
  });
}

/** The content of `config_sentence_transformers.json`; empty if the folder has none. */
export function readSentenceSettings({ path, identity }: ModelFolder): Json {
  const settings = identity?.[SETTINGS] ?? {};
  if (isJson(settings)) return settings;
  throw new StartupError(`${path}/${SETTINGS} holds no JSON object.`);
}

/**
 * The kind of model that sentence-transformers saved: `SentenceTransformer`, `CrossEncoder`, `SparseEncoder`,
 * `MultiVectorEncoder`; `undefined` if the folder does not tell.
 */
export function sentenceModelType(folder: ModelFolder): string | undefined {
  const { model_type: given, similarity_fn_name: similarity } = readSentenceSettings(folder);
  if (typeof given === "string") return given;
  // As PyLate saves them.
  if (similarity === "MaxSim") return "MultiVectorEncoder";
  const modules = readModules(folder) ?? [];
  const other = modules.map(({ type }) => OTHER_MODELS[type]).find((type) => type !== undefined);
  if (other !== undefined) return other;
  // A Transformer without pooling may be a cross-encoder: its architecture decides.
  const pools = modules.some(({ type }) => type === "Pooling" || type === "StaticEmbedding");
  return pools || folder.files.has("1_Pooling/config.json") ? "SentenceTransformer" : undefined;
}
