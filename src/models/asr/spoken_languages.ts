/**
 * The languages of speech models; Whisper's own configuration has more.
 *
 * @module
 */
import { ALL_LANGUAGES, LANGUAGES } from "../../media/languages.ts";
import { HearthError } from "../../base/errors.ts";
import { toModelName } from "../../hub/cache.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";

/** Codes of the API; empty if the folder does not name the languages. */
export type SpokenLanguages = readonly string[];

/** Languages without spaces between words. */
export const UNSPACED_LANGUAGES: readonly string[] = ["ja", "lo", "my", "th", "yue", "zh"];

/** The default language of a model family. */
const BY_TYPE: Readonly<Record<string, string>> = { moonshine: "en" };

/** Languages of models whose files name none, by how the model's name begins. */
const BY_NAME: readonly (readonly [string, SpokenLanguages])[] = [
  ["parakeet-tdt-0.6b-v2", ["en"]],
  [
    "parakeet-tdt-0.6b-v3",
    "bg cs da de el en es et fi fr hr hu it lt lv mt nl pl pt ro ru sk sl sv uk".split(" "),
  ],
];

/**
 * The languages of a model: those of a known model, else those that `config.json` or the folder's name gives
 * (`wav2vec2-large-xlsr-53-german`, `moonshine-tiny-ko`).
 */
export function findLanguages({ path, config }: ModelFolder): SpokenLanguages {
  const name = toModelName(path);
  const known = BY_NAME.find(([beginning]) => name.startsWith(beginning));
  if (known !== undefined) return known[1];
  const named = config["language"];
  if (typeof named === "string" && Object.hasOwn(ALL_LANGUAGES, named)) return [named];
  const words = name.toLowerCase().split(/[^a-z0-9]+/);
  const byName = Object.keys(LANGUAGES).find((code) => words.includes(LANGUAGES[code]!));
  const byCode = words.findLast((word) => word in LANGUAGES);
  const found = byName ?? byCode ?? BY_TYPE[String(config["model_type"])];
  return found === undefined ? [] : [found];
}

/** @throws {HearthError} `invalid_value` naming the supported languages, when `code` is not one of them. */
export function requireLanguage(languages: SpokenLanguages, code: string): void {
  if (languages.includes(code)) return;
  const known = languages.length > 0
    ? `it knows ${languages.join(", ")}`
    : "it writes the one language it was trained on, which its files do not name: leave the field out";
  throw new HearthError(
    "invalid_value",
    `language: the loaded model does not know ${JSON.stringify(code)}; ${known}.`,
    { param: "language" },
  );
}

/** A language's name: `english`; empty if unknown. */
export function languageName(code: string | undefined): string {
  return ALL_LANGUAGES[code ?? ""] ?? "";
}
