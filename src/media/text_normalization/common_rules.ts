/**
 * Recognizes addresses, telephone numbers, abbreviations, scores, versions and plain numbers.
 *
 * @module
 */
import type { Table } from "./nouns.ts";
import { type DecimalSign, matchAny, numberPattern } from "./numbers.ts";
import { type Condition, type Fields, type Rule, rule, tag, words } from "./token.ts";

const { cardinal, electronic, telephone } = tag;

/** Top-level domains that are hardly ever the first word of a sentence after a missing space. */
const DOMAINS = "com|org|net|io|dev|edu|gov|ai|app|info|eu|uk|de|fr|ch|at|es|it|pt|br|ca|au|jp";
const FILES =
  "txt|pdf|js|ts|py|rs|sh|cpp|java|json|csv|md|html?|css|xml|ya?ml|png|jpe?g|gif|svg|zip|exe|docx?|xlsx?|pptx?|mp[34]|wav|gz|tar|log|onnx|gguf|wasm";

/** Punctuation that ends a sentence does not belong to the address. */
const REST = String.raw`(?::\d{2,5}\b)?(?:[/?#](?:[^\s<>()"',;]*[\p{L}\p{N}_/])?)?`;
const IP = String.raw`\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\d)`;
const NAME = String.raw`[\p{L}\p{N}_.-]`;

/** Rules for addresses, tried before all others since they contain full stops and digits. */
export const ELECTRONIC_RULES: readonly Rule[] = [
  electronic`(?i:(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)`,
  electronic`(?i:\b(?:https?|ftp|wss?|file):\/\/(?:www\.)?(?<text>\/?[\w-]+(?:\.[\w-]+)*${REST}))`,
  electronic`(?i:(?<![\w@./-])(?:www(?:\.[\w-]+)+|(?:[\w-]+\.)+(?:${DOMAINS})\b(?:\.[a-z]{2}\b)?|localhost(?=[:/]\w)|${IP})${REST}(?![\w@]))`,
  // Paths on Windows, other paths, and names of files.
  electronic`(?i:(?<![\p{L}\p{N}])[a-z]:\\(?:${NAME}+\\)*(?:${NAME}*[\p{L}\p{N}_])?)`,
  electronic`(?i:(?<![\w/.])(?:(?:~|\.{1,2})?(?:\/${NAME}*[\p{L}\p{N}_]){2,}\/?|(?:~|\.{1,2})\/${NAME}*[\p{L}\p{N}_]\/?))`,
  electronic`(?i:(?<![\w./])(?:[\w-]+\/)*[\w-]+\.(?:${FILES})(?![\w@]))`,
];

const isLong = ({ text }: Fields) => text!.replaceAll(/\D/g, "").length >= 6;
const paddedTelephone = rule("telephone", {}, isLong);

/** Rules for numbers that are read digit by digit. */
export const TELEPHONE_RULES: readonly Rule[] = [
  // With a country code.
  telephone`(?<![\p{L}\d])\+\d[\d ().\u2011\/-]{6,20}\d(?![\d-])`,
  // Groups of digits with a leading zero.
  paddedTelephone`(?<![\p{L}\d.,:\/-])\(?0\d{1,5}\)?(?:[ \/-]\d{2,8}){1,5}(?![\d:-]|[.,\/]\d)`,
  // A payment card's number.
  telephone`(?<![\p{L}\d.,-])\d{4}(?<hyphen>[ -])\d{4}(?:\k<hyphen>\d{4}){2}(?![\d-])`,
  // Book numbers, account numbers and similar: at least three groups.
  rule("telephone", { mark: "groups" })`(?<![\p{L}\d.$-])\d+(?:-\d+){2,}(?![\p{L}\d-])`,
  // A number with a leading zero.
  telephone`(?<![\d.,:])0\d+(?![\d:]|[.,]\d)`,
];

/** The abbreviations of a language. A space in a key may be missing in the text. */
export interface Abbreviations {
  /** Abbreviations that end with a full stop: `Dr` is "Doctor". */
  readonly stopped: Table;
  /** Abbreviations that end with a full stop, and count only before a number: `p. 3`, `vol. II`. */
  readonly counted: Table;
  /** Abbreviations without a full stop: `w/o`. */
  readonly plain: Table;
}

/** The full stop of an abbreviation. If it also ends the sentence, it stays in the text. */
export const STOP = String.raw`(?:\.(?=\s*[^\s"')\]\u201d\u2019])|(?=\.))`;

/** Rules for all three kinds; `{text:abbreviation}` inserts their words. */
export function abbreviationRules({ stopped, counted, plain }: Abbreviations): Rule[] {
  const read = (table: Table, end: string) => {
    const keys = Object.keys(table);
    const names = matchAny([...keys, ...keys.filter(isWord).map(capitalize)]).replaceAll(
      " ",
      "\\s?",
    );
    return words`{text:abbreviation} <- (?<![\p{L}\d.])(?<text>${names})${end}`;
  };
  return [
    read(plain, String.raw`(?![\p{L}\d])`),
    read(counted, String.raw`\.(?=\s?\(?(?:[\d#]|(?:[IVXL]{2,}|[VX])(?![\p{L}\d])))`),
    read(stopped, STOP),
  ];
}

const capitalize = (text: string) => text[0]!.toUpperCase() + text.slice(1);
/** Single capital letters may mean anything. */
const isWord = (abbreviation: string) => /^\p{L}{2}/u.test(abbreviation);

/** The words for an abbreviation, which may be capitalised: `Fig.` is "Figure" if the table has `fig`. */
export function expandAbbreviation(written: string, words: ReadonlyMap<string, string>): string {
  return words.get(written) ??
    capitalize(words.get(written[0]!.toLowerCase() + written.slice(1)) ?? written);
}

const MINUS = String.raw`(?<minus>(?<=^|[\s(\[=:<>\u2264\u2265\u2248~|,;^])[-\u2212])`;

/** A rule for scores: `2:1`. */
export const scoreRule = (versus: string): Rule =>
  words`{number} ${versus} {last} <- (?<![\d:.])(?<number>\d{1,4}(?:\.\d+)?):(?<last>\d{1,4}(?:\.\d+)?)(?![\d:]|[.,]\d)`;

const isVersion: Condition = ({ text }, { after }) =>
  !/^[1-9]\d{0,2}(?:\.\d{3}){2,}$/.test(text!) && !/^,\d/.test(after);

/** At least three numbers with points between them: a version or a section. Grouped numbers look the same. */
export const VERSION_RULE: Rule = rule(
  "verbatim",
  { said: "{text:version}" },
  isVersion,
)`(?<![\p{L}\d]|\d[.,])\d+(?:\.\d+){2,}(?!\d)`;

/** A rule for numbers that no other rule reads. */
export const cardinalRule = (decimalSign: DecimalSign): Rule =>
  cardinal`(?:${MINUS}(?=[.\d]))?(?<number>${numberPattern(decimalSign)})`;
