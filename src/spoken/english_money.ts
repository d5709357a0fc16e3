/**
 * English: amounts of money.
 *
 * @module
 */
import { NUMBER, sayNumber } from "./english_numbers.ts";
import { sayPer } from "./english_units.ts";
import type { Rule } from "./rule.ts";

interface Currency {
  readonly one: string;
  readonly many: string;
  /** The hundredth part, where there is one. */
  readonly cent?: readonly [one: string, many: string];
}

const DOLLAR: Currency = { one: "dollar", many: "dollars", cent: ["cent", "cents"] };
const EURO: Currency = { one: "euro", many: "euros", cent: ["cent", "cents"] };
const POUND: Currency = { one: "pound", many: "pounds", cent: ["penny", "pence"] };
const RUPEE: Currency = { one: "rupee", many: "rupees", cent: ["paisa", "paise"] };
const FRANC: Currency = { one: "Swiss franc", many: "Swiss francs", cent: ["centime", "centimes"] };

/** Dollars by the letters before their sign, or before the D of their code. */
const DOLLARS = {
  US: "US",
  C: "Canadian",
  CA: "Canadian",
  A: "Australian",
  AU: "Australian",
  NZ: "New Zealand",
};

/** By sign or code. */
const CURRENCIES: Readonly<Record<string, Currency>> = {
  $: DOLLAR,
  "\u20ac": EURO,
  EUR: EURO,
  "\u00a3": POUND,
  GBP: POUND,
  "\u00a5": { one: "yen", many: "yen" },
  JPY: { one: "yen", many: "yen" },
  CNY: { one: "yuan", many: "yuan" },
  "\u20b9": RUPEE,
  INR: RUPEE,
  CHF: FRANC,
  "\u20a9": { one: "won", many: "won" },
  "\u20bd": { one: "ruble", many: "rubles" },
  "\u20ba": { one: "lira", many: "lira" },
  "\u20b4": { one: "hryvnia", many: "hryvnias" },
  "\u20aa": { one: "shekel", many: "shekels" },
  "\u20bf": { one: "bitcoin", many: "bitcoins" },
  ...Object.fromEntries(
    Object.entries(DOLLARS).flatMap(([letters, nation]) =>
      [`${letters}$`, `${letters}D`].map((code) => [code, {
        ...DOLLAR,
        one: `${nation} dollar`,
        many: `${nation} dollars`,
      }])
    ),
  ),
};

const SCALES: Readonly<Record<string, string>> = {
  k: "thousand",
  m: "million",
  mn: "million",
  b: "billion",
  bn: "billion",
  t: "trillion",
};

const SCALE = "hundred|thousand|million|billion|trillion|bn|mn|[kmbt]";
const CODES = Object.keys(CURRENCIES).sort((a, b) => b.length - a.length)
  .map((code) => code.replace("$", "\\$")).join("|");
const AMOUNT = String.raw`(${NUMBER}|\.\d+)(?:\s?(?:(${SCALE})\b))?`;
/** What an amount is for: `$5/hour`. */
const PER = String.raw`(?:\s?\/\s?(\p{L}+))?`;

/** Amounts with the sign before or after them. */
export const MONEY_RULES: readonly Rule[] = [
  // As in R$5.
  [
    new RegExp(
      String.raw`(?<=\p{L})(?<!\b(?:${Object.keys(DOLLARS).join("|")}))(?=[$\u20ac\u00a3]\s?\d)`,
      "gu",
    ),
    () => " ",
  ],
  [
    new RegExp(String.raw`([-\u2212])?(?<!\p{L})(${CODES})\s?([-\u2212])?${AMOUNT}${PER}`, "giu"),
    (_, minus, currency, minusAfter, number, scale, per) =>
      (minus ?? minusAfter) === undefined
        ? sayMoney({ currency, number, scale, per })
        : `minus ${sayMoney({ currency, number, scale, per })}`,
  ],
  [
    new RegExp(String.raw`(?<![\d.,])${AMOUNT}\s?(${CODES})(?![\d\p{L}])${PER}`, "giu"),
    (_, number, scale, currency, per) => sayMoney({ currency, number, scale, per }),
  ],
];

function sayMoney(
  { currency, number = "0", scale, per }: {
    readonly currency: string | undefined;
    readonly number: string | undefined;
    readonly scale: string | undefined;
    readonly per: string | undefined;
  },
): string {
  const rate = per === undefined ? "" : ` per ${sayPer(per)}`;
  const { one, many, cent } = CURRENCIES[currency!.toUpperCase()]!;
  if (scale !== undefined) {
    return `${sayNumber(number)} ${SCALES[scale.toLowerCase()] ?? scale} ${many}${rate}`;
  }
  const [whole = "", fraction] = number.split(".");
  const isOne = whole === "1";
  if (fraction === undefined || cent === undefined || fraction.length > 2) {
    return `${sayNumber(number)} ${number === "1" ? one : many}${rate}`;
  }
  const cents = String(Number(fraction.padEnd(2, "0")));
  const small = `${sayNumber(cents)} ${cents === "1" ? cent[0] : cent[1]}`;
  if (cents === "0") return `${sayNumber(whole)} ${isOne ? one : many}${rate}`;
  if (Number(whole) === 0) return small + rate;
  return `${sayNumber(whole)} ${isOne ? one : many} and ${small}${rate}`;
}
