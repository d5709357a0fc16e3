/**
 * English: short forms of words, and signs.
 *
 * @module
 */
import type { Rule } from "./rule.ts";

/** Written with a full stop, which they need. */
const SHORT_WORDS: Readonly<Record<string, string>> = {
  Mr: "Mister",
  Mrs: "Missus",
  Ms: "Miz",
  Dr: "Doctor",
  Prof: "Professor",
  Gen: "General",
  Col: "Colonel",
  Sgt: "Sergeant",
  Lt: "Lieutenant",
  Capt: "Captain",
  Sen: "Senator",
  Rep: "Representative",
  Gov: "Governor",
  Rev: "Reverend",
  Jr: "Junior",
  Sr: "Senior",
  Mt: "Mount",
  Ave: "Avenue",
  Blvd: "Boulevard",
  Rd: "Road",
  Inc: "Incorporated",
  Ltd: "Limited",
  Corp: "Corporation",
  Co: "Company",
  Dept: "Department",
  Fig: "Figure",
  fig: "figure",
  No: "Number",
  Vol: "Volume",
  vol: "volume",
  pp: "pages",
  approx: "approximately",
  etc: "et cetera",
};

/** Before a number. */
const COUNTED_WORDS: Readonly<Record<string, string>> = {
  p: "page",
  ch: "chapter",
  sec: "section",
  eq: "equation",
  art: "article",
  ext: "extension",
  min: "minimum",
  max: "maximum",
  ca: "circa",
  c: "circa",
};

const anyOf = (words: Readonly<Record<string, string>>) =>
  Object.keys(words).sort((a, b) => b.length - a.length).join("|");

/** The full stop of a short form that also ends the sentence, which is where nothing comes next. */
const lastStop = (next: string | undefined) => next === "" ? "." : "";

/** Short forms that are no numbers. */
export const SHORT_WORD_RULES: readonly Rule[] = [
  [/\be\.\s?g\.,?/gi, () => "for example,"],
  [/\bi\.\s?e\.,?/gi, () => "that is,"],
  [/\band\/or\b/gi, () => "and or"],
  [/\bvs\b\.?/g, () => "versus"],
  [/\bw\/o\b/g, () => "without"],
  [/\bw\/(?=\s?\p{L})\s?/gu, () => "with "],
  [/\bC\+\+/g, () => "C plus plus"],
  [/\b([CF])#(?!\w)/g, (_, letter) => `${letter} sharp`],
  [/\bPh\.?\s?D\b(\.?)(?=\s*(\S?))/g, (_, stop, next) => `P H D${stop && lastStop(next)}`],
  // After a name a road, elsewhere somebody's title.
  [
    /(?<=\p{Lu}\p{Ll}{2,}\s)(?<!\b(?:The|This|Our|Your|His|Her|Dear|Yes|Thanks|Hello)\s)Dr\.(?!\s+\p{Lu})(?=\s*(\S?))/gu,
    (_, next) => `Drive${lastStop(next)}`,
  ],
  // Before a name a saint, after one a street.
  [/\bSt\.(?=\s+\p{Lu})/gu, () => "Saint"],
  [/\bSt\.(?=\s*(\S?))/g, (_, next) => `Street${lastStop(next)}`],
  [/\bNo\.(?=\s*\d)/g, () => "Number"],
  // Not an answer.
  [/(?<!\b(?:said|says?|answer(?:ed|s)?|is|was|and|or) )\bno\.(?=\s*\d)/g, () => "number"],
  [
    new RegExp(String.raw`\b(${anyOf(SHORT_WORDS).replace("|No|", "|")})\.(?=\s*(\S?))`, "g"),
    (match, word, next) => word === "No" ? match : SHORT_WORDS[word!]! + lastStop(next),
  ],
  [
    new RegExp(String.raw`(?<![\d.]\s?)\b(${anyOf(COUNTED_WORDS)})\.(?=\s?\d)`, "gi"),
    (_, word) => COUNTED_WORDS[word!.toLowerCase()]!,
  ],
  // U.S. and the like, letter by letter.
  [
    /\b(?:\p{Lu}\.){2,}(?=\s*(\S?))/gu,
    (match, next) => match.replaceAll(".", " ").trim() + lastStop(next),
  ],
];

/** Signs of arithmetic and relations, between or before what they are about. */
const SIGNS: Readonly<Record<string, string>> = {
  "\u00d7": "times",
  "\u00f7": "divided by",
  "\u00b1": "plus or minus",
  "\u2248": "approximately",
  "\u2260": "is not equal to",
  "\u2264": "less than or equal to",
  "\u2265": "greater than or equal to",
  "\u221a": "square root of",
  "\u221e": "infinity",
  "\u03c0": "pi",
};

/** Signs that no other rule has replaced. */
export const SIGN_RULES: readonly Rule[] = [
  [/\s*&\s*/g, () => " and "],
  [/\s*%/g, () => " percent"],
  [/(?<=\w)@(?=\w)/g, () => " at "],
  [/(?<!\S)@(?=\w)/g, () => "at "],
  [/(?<!\S)#(?=\p{L})/gu, () => "hashtag "],
  [/(?<=\w)\s*(?:[-=]>|\u2192)\s*(?=\w)/g, () => " to "],
  [
    new RegExp(`\\s*([${Object.keys(SIGNS).join("")}])\\s*`, "g"),
    (_, sign) => ` ${SIGNS[sign!]} `,
  ],
  [/(?<=[\w)])\s*\+\s*(?=[\w(])/g, () => " plus "],
  [/(?<=[\w)])\s*=\s*(?=[\w(-])/g, () => " equals "],
  [/(?<=[\w)]\s)<(?=\s[\w(])/g, () => "less than"],
  [/(?<=[\w)]\s)>(?=\s[\w(])/g, () => "greater than"],
  // Between letters of short forms nothing is said.
  [/(?<=\b\p{Lu}+)\/(?=\p{Lu}+\b)/gu, () => " "],
  [/(?<=\p{L})\/(?=\p{L})/gu, () => " or "],
  [/[*_~^|\\<>{}=#+@/\u2022\u2190-\u21ff]+/g, () => " "],
  [/\s+(?=[,.;:!?)])/g, () => ""],
  [/\s+/g, () => " "],
];
