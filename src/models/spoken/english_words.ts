/**
 * English: short forms of words, units and signs.
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
  vol: "volume",
  vs: "versus",
  approx: "approximately",
  etc: "et cetera",
};

/** After a number. One of them loses its last s. */
const UNITS: Readonly<Record<string, string>> = {
  mm: "millimeters",
  cm: "centimeters",
  km: "kilometers",
  "km/h": "kilometers per hour",
  kph: "kilometers per hour",
  mph: "miles per hour",
  mi: "miles",
  ft: "feet",
  mg: "milligrams",
  kg: "kilograms",
  lb: "pounds",
  lbs: "pounds",
  oz: "ounces",
  ml: "milliliters",
  kB: "kilobytes",
  KB: "kilobytes",
  MB: "megabytes",
  GB: "gigabytes",
  TB: "terabytes",
  ms: "milliseconds",
  Hz: "hertz",
  kHz: "kilohertz",
  MHz: "megahertz",
  GHz: "gigahertz",
  kW: "kilowatts",
  kWh: "kilowatt hours",
  "\u00b0C": "degrees Celsius",
  "\u00b0F": "degrees Fahrenheit",
  "\u00b0": "degrees",
  "%": "percent",
};

const anyOf = (words: Readonly<Record<string, string>>) =>
  Object.keys(words).sort((a, b) => b.length - a.length).join("|");

/** The full stop of a short form that also ends the sentence, which is where nothing comes next. */
const lastStop = (next: string | undefined) => next === "" ? "." : "";

/** Short forms that are no numbers. */
export const SHORT_WORD_RULES: readonly Rule[] = [
  [/\be\.\s?g\./gi, () => "for example,"],
  [/\bi\.\s?e\./gi, () => "that is,"],
  // Before a name a saint, after one a street.
  [/\bSt\.(?=\s+\p{Lu})/gu, () => "Saint"],
  [/\bSt\.(?=\s*(\S?))/g, (_, next) => `Street${lastStop(next)}`],
  [/\bNo\.(?=\s*\d)/g, () => "Number"],
  [
    new RegExp(String.raw`\b(${anyOf(SHORT_WORDS).replace("|No|", "|")})\.(?=\s*(\S?))`, "g"),
    (match, word, next) => word === "No" ? match : SHORT_WORDS[word!]! + lastStop(next),
  ],
  // U.S. and the like, letter by letter.
  [
    /\b(?:\p{Lu}\.){2,}(?=\s*(\S?))/gu,
    (match, next) => match.replaceAll(".", " ").trim() + lastStop(next),
  ],
];

/** Units and signs around numbers, which are still in figures. */
export const UNIT_RULES: readonly Rule[] = [
  [
    new RegExp(String.raw`(?<![\d.])(\d+(?:\.\d+)?)[ -]?(${anyOf(UNITS)})(?![\p{L}\d/])`, "gu"),
    (_, number, unit) => {
      const name = UNITS[unit!]!;
      const isOne = number === "1" && unit !== "%" && !/hertz|feet/.test(name);
      return `${number} ${isOne ? name.replace(/s(?= |$)/, "") : name}`;
    },
  ],
  [/(\d)\s?x\s?(?=\d)/g, (_, digit) => `${digit} by `],
  [/#\s?(?=\d)/g, () => "number "],
];

/** Signs that are left in the end. */
export const SIGN_RULES: readonly Rule[] = [
  [/\s*&\s*/g, () => " and "],
  [/\s*%/g, () => " percent"],
  [/(?<=\w)@(?=\w)/g, () => " at "],
  [/(?<=[\w)])\s*\+\s*(?=[\w(])/g, () => " plus "],
  [/(?<=[\w)])\s*=\s*(?=[\w(-])/g, () => " equals "],
  [/(?<=\p{L})\/(?=\p{L})/gu, () => " or "],
  [/(?<=\w)\.(?=(?:com|org|net|io|dev|edu|gov)\b)/g, () => " dot "],
  [/[*_~^|\\<>{}=#+@/]+/g, () => " "],
  [/\s+(?=[,.;:!?])/g, () => ""],
  [/\s+/g, () => " "],
];
