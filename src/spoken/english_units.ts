/**
 * English: units of measurement.
 *
 * @module
 */
import { NUMBER } from "./english_numbers.ts";
import type { Rule } from "./rule.ts";

/** After a number. One of them loses its last s. */
const UNITS: Readonly<Record<string, string>> = {
  nm: "nanometers",
  "\u00b5m": "micrometers",
  mm: "millimeters",
  cm: "centimeters",
  m: "meters",
  km: "kilometers",
  in: "inches",
  ft: "feet",
  yd: "yards",
  mi: "miles",
  kph: "kilometers per hour",
  mph: "miles per hour",
  "\u00b5g": "micrograms",
  mg: "milligrams",
  g: "grams",
  kg: "kilograms",
  lb: "pounds",
  lbs: "pounds",
  oz: "ounces",
  "fl oz": "fluid ounces",
  ml: "milliliters",
  mL: "milliliters",
  dL: "deciliters",
  cl: "centiliters",
  l: "liters",
  L: "liters",
  "L/100 km": "liters per 100 kilometers",
  ha: "hectares",
  "sq ft": "square feet",
  "sq mi": "square miles",
  "sq m": "square meters",
  "sq km": "square kilometers",
  kB: "kilobytes",
  KB: "kilobytes",
  MB: "megabytes",
  GB: "gigabytes",
  TB: "terabytes",
  PB: "petabytes",
  KiB: "kibibytes",
  MiB: "mebibytes",
  GiB: "gibibytes",
  TiB: "tebibytes",
  kb: "kilobits",
  Mb: "megabits",
  Gb: "gigabits",
  kbps: "kilobits per second",
  Mbps: "megabits per second",
  Gbps: "gigabits per second",
  px: "pixels",
  fps: "frames per second",
  rpm: "revolutions per minute",
  bpm: "beats per minute",
  ns: "nanoseconds",
  "\u00b5s": "microseconds",
  ms: "milliseconds",
  s: "seconds",
  sec: "seconds",
  secs: "seconds",
  min: "minutes",
  mins: "minutes",
  h: "hours",
  hr: "hours",
  hrs: "hours",
  yrs: "years",
  Hz: "hertz",
  kHz: "kilohertz",
  MHz: "megahertz",
  GHz: "gigahertz",
  dB: "decibels",
  mA: "milliamps",
  mAh: "milliamp hours",
  Ah: "amp hours",
  mV: "millivolts",
  V: "volts",
  kV: "kilovolts",
  mW: "milliwatts",
  W: "watts",
  kW: "kilowatts",
  MW: "megawatts",
  GW: "gigawatts",
  Wh: "watt hours",
  kWh: "kilowatt hours",
  MWh: "megawatt hours",
  kJ: "kilojoules",
  kcal: "kilocalories",
  cal: "calories",
  Pa: "pascals",
  hPa: "hectopascals",
  kPa: "kilopascals",
  psi: "pounds per square inch",
  ppm: "parts per million",
  "\u2126": "ohms",
  "\u00b0C": "degrees Celsius",
  "\u00b0F": "degrees Fahrenheit",
  "\u00b0N": "degrees north",
  "\u00b0S": "degrees south",
  "\u00b0E": "degrees east",
  "\u00b0W": "degrees west",
  "\u00b0": "degrees",
  "%": "percent",
  "\u00a2": "cents",
};

/** What something is counted by, where it is no unit: `$5/mo`. */
const PERIODS: Readonly<Record<string, string>> = {
  d: "day",
  wk: "week",
  mo: "month",
  mth: "month",
  yr: "year",
  y: "year",
  a: "year",
  pp: "person",
};

/** Units whose powers are not areas and volumes. */
const TIMES: ReadonlySet<string> = new Set(["s", "sec", "min", "h", "hr"]);
const UNIT = Object.keys(UNITS).sort((a, b) => b.length - a.length).join("|");
const POWER = String.raw`\^?[23](?!\d)`;
const POWERS: Readonly<Record<string, string>> = { 2: " squared", 3: " cubed" };
/** Nouns and adjectives after a length. */
const MEASURED = String
  .raw`(?=\s?(?:x|by|tall|high|wide|long|deep|thick|screen|monitor|display|tv|pipe|pizza|vinyl|laptop|tablet)\b)`;

function singular(name: string): string {
  return name.replace("feet", "foot").replace("inches", "inch").replace(/s(?= |$)/, "");
}

function sayPower(unit: string, power: string | undefined): string {
  const name = UNITS[unit]!;
  if (power === undefined) return name;
  const isSquare = power.endsWith("2");
  if (TIMES.has(unit)) return `${name} ${isSquare ? "squared" : "cubed"}`;
  return `${isSquare ? "square" : "cubic"} ${name}`;
}

/** What follows the stroke of a rate: `h` and `hour` are "hour". */
export function sayPer(unit: string, power?: string): string {
  if (Object.hasOwn(UNITS, unit)) return singular(sayPower(unit, power));
  return PERIODS[unit] ?? unit;
}

/** Units and signs around numbers, which are still digits. */
export const UNIT_RULES: readonly Rule[] = [
  [/\u03bc(?=[msgAVW])/g, () => "\u00b5"],
  [
    /(?<![\d'])(\d{1,2})'\s?(\d{1,2})"/g,
    (_, feet, inches) => `${feet} ${feet === "1" ? "foot" : "feet"} ${inches}`,
  ],
  [/(?<=\dft\.? ?\d{1,2}|\d ft\.? ?\d{1,2})\s?in\b\.?/g, () => " inches"],
  [new RegExp(String.raw`(?<=\d)'${MEASURED}`, "gi"), () => " feet"],
  [new RegExp(String.raw`(?<=\d)"${MEASURED}`, "gi"), () => " inch"],
  // As in 2h30, 2h 5m and 5m30s.
  [
    /(\d+)\s?h\s?(?:([0-5]\d)|(\d{1,2})\s?m(?:in)?)\b/g,
    (_, hours, minutes, other) => `${hours} hr ${minutes ?? other} min`,
  ],
  [/(?<=\d)\s?m(?:in)?\s?(\d{1,2})\s?s(?:ec)?\b/g, (_, seconds) => ` min ${seconds} sec`],
  [/\b401\(?k\)?(?!\w)/gi, () => "four oh one K"],
  [/(?<![\w.])(\d{2,}|\d+\.\d+)k\b/gi, (_, number) => `${number} thousand`],
  [/(?<=\d)M\b/g, () => " million"],
  [/(?<=\d)\s?bn\b/g, () => " billion"],
  [
    new RegExp(
      String.raw`(?<![\d.,\p{L}])(${NUMBER}|\.\d+)([ -]?)(${UNIT})(${POWER})?` +
        String.raw`(?:\/(\p{L}+)(${POWER})?)?(?![\p{L}\d]|\/\p{L})(?:\.(?=\s\p{Ll}))?`,
      "gu",
    ),
    (match, number, space, unit, power, per, powerPer) => {
      const isPlain = power === undefined && per === undefined;
      // A word of its own, and the ends of names such as 5s and 1990s.
      if (isPlain && unit === "in") return match;
      if (isPlain && unit === "s" && space === "" && !number!.includes(".")) return match;
      const name = sayPower(unit!, power);
      const rate = per === undefined ? "" : ` per ${sayPer(per, powerPer)}`;
      const isOne = (number === "1" || space === "-") && unit !== "%";
      return `${number}${space === "-" ? "-" : " "}${isOne ? singular(name) : name}${rate}`;
    },
  ],
  [
    /(?<![\p{L}\d/])(km|mi|m|ft|[kMG]b|[kMG]B)\/(h|s|sec|min|day)\b/gu,
    (_, unit, per) => `${UNITS[unit!]} per ${sayPer(per!)}`,
  ],
  [
    /(?<=\dx?|\p{L}s)\/(?=(?:second|minute|hour|day|night|week|month|year|person|user)\b)/gu,
    () => " per ",
  ],
  [
    /(?<=\d)x(?=\s+(?:faster|slower|more|less|better|bigger|larger|smaller|higher|longer|as)\b)/g,
    () => " times",
  ],
  [/(\d)\s?x\s?(?=\d)|(\d)\u00d7(?=\d)/g, (_, digit, other) => `${digit ?? other} by `],
  [
    /\^\(?(-?)(\d+)\)?/g,
    (_, sign, power) => POWERS[sign! + power!] ?? ` to the power of ${sign && "minus "}${power}`,
  ],
  [/(?<=\d)\s*\*\s*(?=\d)/g, () => " times "],
  [/(?<=\d)\+(?!\S)/g, () => " plus"],
  [/\/(?=\d)/g, () => " "],
  [/#\s?(?=\d)|\u2116\s?(?=\d)/g, () => "number "],
  [/\u00a7+\s?(?=\d)/g, () => "section "],
  [/(?<!\w)~(?=[$\u20ac\u00a3]?\d)/g, () => "about "],
];
