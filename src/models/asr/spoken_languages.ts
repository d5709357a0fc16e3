/**
 * The languages of speech models; Whisper's own configuration has more.
 *
 * @module
 */
import { basename } from "node:path";
import { LANGUAGES } from "../../api/languages.ts";
import { HearthError } from "../../errors.ts";
import { hubIdOfSnapshot } from "../../hub/cache.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";

/** Codes of the API; none if the folder does not name them. */
export type SpokenLanguages = readonly string[];

/** Languages without spaces between words, including Whisper's codes that the API lacks. */
export const UNSPACED_LANGUAGES: readonly string[] = ["ja", "lo", "my", "th", "yue", "zh"];

/** A model family's language unless its name says otherwise. */
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
  return LANGUAGES[code ?? ""] ?? "";
}
