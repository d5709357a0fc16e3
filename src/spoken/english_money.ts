/**
 * English: amounts of money.
 *
 * @module
 */
import { sayNumber } from "./english_numbers.ts";
import type { Rule } from "./rule.ts";

interface Currency {
  readonly one: string;
  readonly many: string;
  /** The hundredth part, where there is one. */
  readonly cent?: readonly [one: string, many: string];
}

const CENT = ["cent", "cents"] as const;

const CURRENCIES: Readonly<Record<string, Currency>> = {
  $: { one: "dollar", many: "dollars", cent: CENT },
  "\u20ac": { one: "euro", many: "euros", cent: CENT },
  "\u00a3": { one: "pound", many: "pounds", cent: ["penny", "pence"] },
  "\u00a5": { one: "yen", many: "yen" },
  "\u20b9": { one: "rupee", many: "rupees", cent: ["paisa", "paise"] },
  "\u20a9": { one: "won", many: "won" },
};

const SCALES: Readonly<Record<string, string>> = {
  k: "thousand",
  m: "million",
  mn: "million",
  b: "billion",
  bn: "billion",
};

const SCALE = "hundred|thousand|million|billion|trillion|bn|mn|[kmb]";
const AMOUNT = String.raw`(\d+(?:\.\d+)?)(?:\s?(${SCALE})\b)?`;

/** Amounts with the sign before or after them. Groups of digits are joined by then. */
export const MONEY_RULES: readonly Rule[] = [
  // As in US$5.
  [/(?<=\p{L})(?=[$\u20ac\u00a3]\s?\d)/gu, () => " "],
  [
    new RegExp(String.raw`(-)?([$\u20ac\u00a3\u00a5\u20b9\u20a9])\s?${AMOUNT}`, "gi"),
    (_, sign, currency, number, scale) =>
      `${sign === undefined ? "" : "minus "}${sayMoney({ currency, number, scale })}`,
  ],
  [
    /(\d+(?:\.\d+)?)\s?([$\u20ac\u00a3\u20b9])(?!\d)/g,
    (_, number, currency) => sayMoney({ currency, number }),
  ],
];

function sayMoney(
  { currency, number = "0", scale }: {
    readonly currency: string | undefined;
    readonly number: string | undefined;
    readonly scale?: string | undefined;
  },
): string {
  const { one, many, cent } = CURRENCIES[currency!]!;
  if (scale !== undefined) {
    return `${sayNumber(number)} ${SCALES[scale.toLowerCase()] ?? scale} ${many}`;
  }
  const [whole = "0", fraction] = number.split(".");
  const name = whole === "1" ? one : many;
  if (fraction === undefined || cent === undefined || fraction.length > 2) {
    return `${sayNumber(number)} ${number === "1" ? one : many}`;
  }
  const cents = String(Number(fraction.padEnd(2, "0")));
  const small = `${sayNumber(cents)} ${cents === "1" ? cent[0] : cent[1]}`;
  if (cents === "0") return `${sayNumber(whole)} ${name}`;
  return whole === "0" ? small : `${sayNumber(whole)} ${name} and ${small}`;
}
