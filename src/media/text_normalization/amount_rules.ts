/**
 * Recognizes money and measures.
 *
 * @module
 */
import type { Lexicon } from "./lexicon.ts";
import {
  type DecimalSign,
  moneyPattern,
  numberPattern,
  readAmount,
  readMoney,
  readNumber,
} from "./number_format.ts";
import { matchAny } from "./tables.ts";
import type { Amount, Rule, Scale } from "./token.ts";

/** What the rules for amounts need of a language. */
export interface AmountSyntax {
  readonly decimalSign: DecimalSign;
  /** Words and letters for powers of ten beside an amount of money. */
  readonly scales: Readonly<Record<string, Scale>>;
  /** Symbols that are words too, so that they want no blank before them: `5 in`. */
  readonly words?: readonly string[];
  /** Symbols that are the end of a name where no blank is before them: `Room 4B`. */
  readonly codes?: readonly string[];
}

/** No letter, figure or decimal sign before it. */
const START = String.raw`(?<![\p{L}\d]|\d[.,:/])`;
const MINUS = String.raw`(?:(?<=^|[\s(\[=:<>\u2264\u2265\u2248~|,;])[-\u2212])`;
const RANGE = String.raw`(?:\s?[-\u2013]\s?|\s\u2013\s)`;

/** Currencies whose amounts have groups between points where the language has none. */
const isPointGrouped = (currency: string) => !/[$\u00a3\u00a5\u20b9]/.test(currency);

/** Amounts with the sign or the code of a currency before or after them. */
export function moneyRules(lexicon: Lexicon, { decimalSign, scales }: AmountSyntax): Rule[] {
  const currency = `(${matchAny(lexicon.currencies)})`;
  const number = `(${moneyPattern(decimalSign)})`;
  const scale = String.raw`(?:\s?(${matchAny(Object.keys(scales))})(?![\p{L}\d]))?`;
  const per = String.raw`(?:\s?\/\s?(\p{L}+))?`;
  const readScaled = (written: string, { minus, scale, currency }: {
    readonly minus?: string | undefined;
    readonly scale?: string | undefined;
    readonly currency: string;
  }): Amount => {
    const read = isPointGrouped(currency) ? readMoney : readNumber;
    const name = scale === undefined ? undefined : scales[scale];
    return readAmount(read(written, decimalSign), { minus, scale: name });
  };
  return [
    {
      // A sign that stands alone begins an amount behind letters too: R$5.
      pattern: new RegExp(
        String
          .raw`(?<!\d)(${MINUS}|(?<=^)[-\u2212])?(?<![A-Z])${currency}\s?([-\u2212])?${number}${scale}` +
          String
            .raw`(?:\.?[\u2013-](?![\w$\u20ac\u00a3\u00a5]))?(?:${RANGE}${number}${scale}(?![\d.,]*[-\d]))?${per}`,
        "uy",
      ),
      read: ([minus, sign, minusAfter, first, scaleFirst, last, scaleLast, per]) => {
        const currency = sign!;
        const end = last === undefined
          ? undefined
          : readScaled(last, { scale: scaleLast, currency });
        const start = readScaled(first!, {
          minus: minus ?? minusAfter,
          scale: scaleFirst,
          currency,
        });
        if (end !== undefined && scaleFirst !== undefined && scaleFirst !== scaleLast) {
          return undefined;
        }
        return { kind: "money", amount: start, last: end, currency, per };
      },
    },
    {
      pattern: new RegExp(
        String
          .raw`${START}(${MINUS})?${number}(?:${RANGE}${number})?${scale}\s?${currency}(?![\d\p{L}])${per}`,
        "uy",
      ),
      read: ([minus, first, last, scale, sign, per]) => {
        const currency = sign!;
        const end = last === undefined ? undefined : readScaled(last, { scale, currency });
        const own = end === undefined ? scale : undefined;
        const start = readScaled(first!, { minus, scale: own, currency });
        return { kind: "money", amount: start, last: end, currency, per };
      },
    },
  ];
}

const POWERS: Readonly<Record<string, 2 | 3>> = { "\u00b2": 2, "\u00b3": 3, "2": 2, "3": 3 };

/** Numbers and ranges with units. */
export function measureRules(
  lexicon: Lexicon,
  { decimalSign, words = [], codes = [] }: AmountSyntax,
): Rule[] {
  const unit = `(${matchAny(lexicon.units)})`;
  const number = `(${numberPattern(decimalSign)})`;
  const power = lexicon.hasPowers ? String.raw`(\^?[23](?!\d)|[\u00b2\u00b3])?` : "((?!))?";
  return [{
    pattern: new RegExp(
      String.raw`${START}(${MINUS})?${number}(?:${RANGE}${number})?([\s-]?)${unit}${power}` +
        // Not the first letter of "m'ont", nor a stroke that goes on to something else.
        String
          .raw`(?:\s?\/\s?${unit}${power})?(?![\p{L}\d\u00b2\u00b3]|['\u2019]\p{L}|\/\p{L})(?:\.(?=\s\p{Ll}))?`,
      "uy",
    ),
    read: ([minus, first, last, space, unit, power, per, perPower], { before }) => {
      if (words.includes(unit!) && !(space === "" && last === undefined)) return undefined;
      if (codes.includes(unit!) && space === "" && per === undefined) return undefined;
      if (space === "-" && (last !== undefined || /[-\u2013]$/.test(before))) return undefined;
      // Names such as 5s and 1990s.
      if (unit === "s" && space === "" && per === undefined && !/[.,]/.test(first!)) {
        return undefined;
      }
      return {
        kind: "measure",
        amount: readAmount(readNumber(first!, decimalSign), { minus }),
        last: last === undefined ? undefined : readAmount(readNumber(last, decimalSign)),
        unit: unit!,
        power: power === undefined ? undefined : POWERS[power.replace("^", "")],
        per,
        perPower: perPower === undefined ? undefined : POWERS[perPower.replace("^", "")],
        isAttributive: space === "-",
      };
    },
  }, {
    // As in Turkish and some others: %5.
    pattern: new RegExp(String.raw`(?<![\p{L}\d])%\s?${number}`, "uy"),
    read: ([written]) => ({
      kind: "measure",
      amount: readAmount(readNumber(written!, decimalSign)),
      unit: "%",
    }),
  }];
}
