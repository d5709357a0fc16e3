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
  pp: "pages",
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
  "\u00a2": "cents",
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
  [/(?<=\b(?:the|a|at|our|my|your) )no\.(?=\s*\d)/gi, () => "number"],
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

/** Units and signs around numbers, which are still digits. */
export const UNIT_RULES: readonly Rule[] = [
  [
    /(?<![\d'])(\d{1,2})'\s?(\d{1,2})"/g,
    (_, feet, inches) => `${feet} ${feet === "1" ? "foot" : "feet"} ${inches}`,
  ],
  [/(?<![\w.])(\d{2,}|\d+\.\d+)k\b/gi, (_, number) => `${number} thousand`],
  [/(?<=\d)M\b/g, () => " million"],
  [/(?<=\d)bn\b/g, () => " billion"],
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

/** Signs that no other rule has replaced. */
export const SIGN_RULES: readonly Rule[] = [
  [/\s*&\s*/g, () => " and "],
  [/\s*%/g, () => " percent"],
  [/(?<=\w)@(?=\w)/g, () => " at "],
  [/(?<=[\w)])\s*\+\s*(?=[\w(])/g, () => " plus "],
  [/(?<=[\w)])\s*=\s*(?=[\w(-])/g, () => " equals "],
  [/(?<=\p{L})\/(?=\p{L})/gu, () => " or "],
  [/[*_~^|\\<>{}=#+@/]+/g, () => " "],
  [/\s+(?=[,.;:!?])/g, () => ""],
  [/\s+/g, () => " "],
];
