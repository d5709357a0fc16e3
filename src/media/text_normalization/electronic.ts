/**
 * Recognizes addresses of mail and the web, and paths of files; says them sign by sign.
 *
 * @module
 */
import type { NumberWords } from "./numbers.ts";
import { type Rule, rule } from "./token.ts";

/** Ends of names that are hardly ever the first word of a sentence whose blank was forgotten. */
const DOMAINS = "com|org|net|io|dev|edu|gov|ai|app|info|eu|uk|de|fr|ch|at|es|it|pt|br|ca|au|jp";
const FILES =
  "txt|pdf|js|ts|py|rs|sh|cpp|java|json|csv|md|html?|css|xml|ya?ml|png|jpe?g|gif|svg|zip|exe|docx?|xlsx?|pptx?|mp[34]|wav|gz|tar|log|onnx|gguf|wasm";

/** What ends a sentence does not end an address. */
const REST = String.raw`(?::\d{2,5}\b)?(?:[/?#](?:[^\s<>()"',;]*[\p{L}\p{N}_/])?)?`;
const IP = String.raw`\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)`;
const NAME = String.raw`[\p{L}\p{N}_.-]`;

/** Tried before all other rules, since these have full stops and figures in them. */
export const ELECTRONIC_RULES: readonly Rule[] = [
  rule("electronic")`(?i:(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)`,
  rule("electronic")`(?i:\bhttps?:\/\/(?:www\.)?(?<text>[\w-]+(?:\.[\w-]+)*${REST}))`,
  rule(
    "electronic",
  )`(?i:(?<![\w@./-])(?:(?:[\w-]+\.)+(?:${DOMAINS})\b|localhost(?=[:/]\w)|${IP})${REST}(?![\w@]))`,
  // Paths: of Windows, of others, and names of files.
  rule("electronic")`(?i:(?<![\p{L}\p{N}])[a-z]:\\(?:${NAME}+\\)*(?:${NAME}*[\p{L}\p{N}_])?)`,
  rule(
    "electronic",
  )`(?i:(?<![\w/.])(?:(?:~|\.{1,2})?(?:\/${NAME}*[\p{L}\p{N}_]){2,}\/?|(?:~|\.{1,2})\/${NAME}*[\p{L}\p{N}_]\/?))`,
  rule("electronic")`(?i:(?<![\w./])(?:[\w-]+\/)*[\w-]+\.(?:${FILES})(?![\w@]))`,
];

/** Says each sign of an address by its word; a sign without one is a blank. */
export function sayAddress(
  address: string,
  words: Readonly<Record<string, string>>,
  numbers: NumberWords,
): string {
  return address.replace(/(?<=.)\/$/, "")
    .replaceAll(/[^\p{L}\p{N}]/gu, (sign) => ` ${words[sign] ?? ""} `)
    .replaceAll(/(?<=\p{L})(?=\d)|(?<=\d)(?=\p{L})/gu, " ")
    .replaceAll(
      /\d+/g,
      (figures) =>
        figures.length > 4 || /^0\d/.test(figures)
          ? numbers.digits(figures)
          : numbers.cardinal(figures),
    )
    .replaceAll(/\s+/g, " ").trim();
}
