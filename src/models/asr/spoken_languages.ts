/**
 * The languages that speech models write; of Whisper's own its configuration knows more.
 *
 * @module
 */
import { basename } from "node:path";
import { LANGUAGES } from "../../api/languages.ts";
import { HearthError } from "../../errors.ts";
import { hubIdOfSnapshot } from "../../hub/cache.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";

/** Codes of the API; none where the folder does not tell. */
export type SpokenLanguages = readonly string[];

/** Languages that put no spaces between words, Whisper's among them that are not the API's. */
export const UNSPACED_LANGUAGES: readonly string[] = ["ja", "lo", "my", "th", "yue", "zh"];

/** What a model family writes unless its name says otherwise. */
const BY_TYPE: Readonly<Record<string, string>> = { moonshine: "en" };

/**
 * The one language that a folder's `config.json` or its name gives: `wav2vec2-large-xlsr-53-german`,
 * `moonshine-tiny-ko`.
 */
export function findLanguages({ path, config }: ModelFolder): SpokenLanguages {
  const named = config["language"];
  if (typeof named === "string" && named in LANGUAGES) return [named];
  const words = (hubIdOfSnapshot(path)?.name ?? basename(path)).toLowerCase().split(/[^a-z0-9]+/);
  const byName = Object.keys(LANGUAGES).find((code) => words.includes(LANGUAGES[code]!));
  const byCode = words.findLast((word) => word in LANGUAGES);
  const found = byName ?? byCode ?? BY_TYPE[String(config["model_type"])];
  return found === undefined ? [] : [found];
}

/** @throws {HearthError} `invalid_value` naming the languages there are, when `code` is none of them. */
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

/** A language's name: `english`; empty where it is not known. */
export function languageName(code: string | undefined): string {
  return LANGUAGES[code ?? ""] ?? "";
}
