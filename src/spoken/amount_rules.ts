/**
 * Ranges, amounts of money and numbers with units.
 *
 * @module
 */
import { genderOf, type Language, type MatchContext } from "./language.ts";
import { numberPattern, readNumber } from "./numbers.ts";
import { anyOf, type TextRule } from "./text_rule.ts";
import type { UnitNames } from "./unit_names.ts";

/** A sign, where no number or word stands before it. */
const MINUS = String.raw`(?:(?<=^|[\s(])[-\u2212])?`;

/** From one number to a greater one. */
export function rangeRules(language: Language): TextRule[] {
  const { to } = language;
  if (to === undefined) return [];
  const number = numberPattern(language);
  return [{
    pattern: new RegExp(
      String.raw`(?<![\p{L}\d.,:/-])(${number})\s?[-\u2013]\s?(${number})(?![\d:/-])`,
      "gu",
    ),
    say: ([first, last]) => {
      const [low, high] = [first!, last!].map((each) => Number(readNumber(each, language)));
      if (low! >= high! || /^0\d/.test(first!)) return undefined;
      return first + to + last;
    },
  }];
}

/** Amounts with the sign or the code before or after them. */
export function moneyRules(language: Language, names: UnitNames): TextRule[] {
  const currency = anyOf(names.currencies);
  const number = numberPattern(language);
  const isUnit = ([, id]: readonly [string, string]) => !/^[A-Z]{3}$/.test(id);
  const counted = [...names.units, ...[...names.nouns].filter(isUnit)].map(([symbol]) => symbol);
  const per = String.raw`(?:\s?\/\s?(${anyOf(counted)})(?![\p{L}\d]))?`;
  const sayMoney = (
    { sign, minus, written, per }: {
      readonly sign: string;
      readonly minus: boolean;
      readonly written: string;
      readonly per: string | undefined;
    },
    { say }: MatchContext,
  ): string | undefined => {
    const digits = readNumber(written, language);
    const gender = genderOf(language, names.codeOf(sign));
    const unit = per && (names.units.get(per) ?? names.nouns.get(per));
    const [whole = "", cents = ""] = digits.split(".");
    const isPlain = cents === "" || /^0+$/.test(cents);
    const isParted = cents.length === 2 && language.andCents !== undefined;
    const said = isPlain || isParted ? whole : digits;
    const signed = minus ? `-${said}` : said;
    const amount = names.currency(
      { digits: said, words: say.cardinal(signed, gender) },
      sign,
      unit,
    );
    if (isPlain || !isParted || amount === undefined) return amount;
    return amount + language.andCents + say.cardinal(Number(cents));
  };
  return [
    {
      pattern: new RegExp(
        String.raw`(?<![\p{L}\d])([-\u2212])?(${currency})\s?([-\u2212])?(${number})${per}`,
        "gu",
      ),
      say: ([minus, sign, minusAfter, written, per], context) =>
        sayMoney(
          { sign: sign!, minus: (minus ?? minusAfter) !== undefined, written: written!, per },
          context,
        ),
    },
    {
      pattern: new RegExp(
        String.raw`(?<![\p{L}\d.,])(${MINUS})(${number})\s?(${currency})(?![\p{L}\d])${per}`,
        "gu",
      ),
      say: ([minus, written, sign, per], context) =>
        sayMoney({ sign: sign!, minus: minus !== "", written: written!, per }, context),
    },
    {
      pattern: new RegExp(String.raw`(?<=\p{L}\.? )([\u20ac$\u00a3])(?![\p{L}\d])`, "gu"),
      say: ([sign]) => names.currencyAfterWord(sign!),
    },
  ];
}

/** Numbers with units, percents and degrees. */
export function unitRules(language: Language, names: UnitNames): TextRule[] {
  // Not the first letter of "m'ont".
  const end = String.raw`(?![\p{L}\d]|(?<=[\s\d]\p{L})['\u2019]\p{L})`;
  const units = anyOf(names.units.keys());
  const number = numberPattern(language);
  return [{
    pattern: new RegExp(String.raw`(?<![\p{L}\d])%\s?(${number})`, "gu"),
    say: ([written]) => `${written}%`,
  }, {
    pattern: /(?<=\d\s?\u00b0) (?=[CF](?!\p{L}))/gu,
    say: () => "",
  }, {
    pattern: new RegExp(
      String.raw`(?<![\p{L}\d.,:/])(${MINUS})(${number})\s?(${units})([\u00b2\u00b3])?` +
        String.raw`(?:\s?\/\s?(${units})${end})?${end}(?![\/\u00b2\u00b3])`,
      "gu",
    ),
    say: ([minus, written, symbol, power, symbolPer], { say }) => {
      if (language.words?.has(symbol!)) return undefined;
      const id = names.units.get(symbol!)!;
      const per = symbolPer && names.units.get(symbolPer);
      const digits = readNumber(written!, language);
      const words = say.cardinal((minus === "" ? "" : "-") + digits, genderOf(language, id));
      return names.unit({ digits, words }, id, {
        power: power === undefined ? undefined : (power === "\u00b2" ? "square" : "cubic"),
        per,
      });
    },
  }];
}

/** Numbers before names of units and currencies that are written in full, with which they agree. */
export function nounRules(language: Language, names: UnitNames): TextRule[] {
  if (language.genders === undefined) return [];
  return [{
    pattern: new RegExp(
      String.raw`(?<![\p{L}\d.,:/])(${MINUS})(${numberPattern(language)})\s(${
        anyOf(names.nouns.keys())
      })(?!\p{L})`,
      "gu",
    ),
    say: ([minus, written, noun], { say }) => {
      const gender = genderOf(language, names.nouns.get(noun!)!);
      const digits = readNumber(written!, language);
      return `${say.cardinal((minus === "" ? "" : "-") + digits, gender)} ${noun}`;
    },
  }];
}
