/**
 * What sentence-transformers says of a folder that it saved: the modules in `modules.json`, and the kind of model in
 * `config_sentence_transformers.json` (from its version 5 on).
 *
 * A Python class's path changes from version to version, `sentence_transformers.models.Pooling` to
 * `sentence_transformers.sentence_transformer.modules.pooling.Pooling`: its last part alone counts.
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
  /** Its folder, below the model's. */
  readonly path: string;
}

/** Modules after a Transformer that make no vector of a text, by what their models are. */
const OTHER_MODELS: Readonly<Record<string, string>> = {
  SpladePooling: "SparseEncoder",
  MLMTransformer: "SparseEncoder",
  SparseAutoEncoder: "SparseEncoder",
  SparseStaticEmbedding: "SparseEncoder",
  MultiVectorMask: "MultiVectorEncoder",
  TokenPooling: "MultiVectorEncoder",
  LogitScore: "CrossEncoder",
};

/** The modules; `undefined` where the folder names none. @throws {StartupError} naming the file and the field. */
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

/** `config_sentence_transformers.json`, empty if the folder has none. */
export function readSentenceSettings({ path, identity }: ModelFolder): Json {
  const settings = identity?.[SETTINGS] ?? {};
  if (isJson(settings)) return settings;
  throw new StartupError(`${path}/${SETTINGS} holds no JSON object.`);
}

/**
 * What kind of model sentence-transformers saved: `SentenceTransformer`, `CrossEncoder`, `SparseEncoder`,
 * `MultiVectorEncoder`; `undefined` where the folder does not tell.
 */
export function sentenceModelType(folder: ModelFolder): string | undefined {
  const given = readSentenceSettings(folder)["model_type"];
  if (typeof given === "string") return given;
  const modules = readModules(folder) ?? [];
  const other = modules.map(({ type }) => OTHER_MODELS[type]).find((type) => type !== undefined);
  if (other !== undefined) return other;
  // A lone Transformer may be a cross-encoder's, whose architecture tells it.
  const pools = modules.some(({ type }) => type === "Pooling" || type === "StaticEmbedding");
  return pools || folder.files.has("1_Pooling/config.json") ? "SentenceTransformer" : undefined;
}
