/**
 * Normalizes English text for speech: every number, sign and abbreviation written out.
 *
 * @module
 */
import { ADDRESS_RULES } from "./english_addresses.ts";
import { DATE_RULES } from "./english_dates.ts";
import { MONEY_RULES } from "./english_money.ts";
import { COMPOUND_NUMBER_RULES, SINGLE_NUMBER_RULES } from "./english_numbers.ts";
import { ROMAN_RULES } from "./english_roman.ts";
import { TIME_RULES } from "./english_times.ts";
import { UNIT_RULES } from "./english_units.ts";
import { SHORT_WORD_RULES, SIGN_RULES } from "./english_words.ts";
import { applyRules, type Rule } from "./rule.ts";

/** Rules with context (dates, money) come before those for bare numbers. */
const RULES: readonly Rule[] = [
  ...ADDRESS_RULES,
  ...ROMAN_RULES,
  ...DATE_RULES,
  ...TIME_RULES,
  ...SHORT_WORD_RULES,
  ...COMPOUND_NUMBER_RULES,
  ...MONEY_RULES,
  ...UNIT_RULES,
  ...SINGLE_NUMBER_RULES,
  ...SIGN_RULES,
];

/** Three words in capitals, of which those such as IT and US are not short forms where no other letters are. */
const SHOUTED = /\p{Lu}{2,}[^\p{L}]+\p{Lu}{2,}[^\p{L}]+\p{Lu}{2,}/u;

/**
 * Writes out numbers, amounts, dates, times, short forms and signs.
 *
 * @example
 * ```ts
 * import { spellEnglish } from "./english.ts";
 * import assert from "node:assert/strict";
 * assert.equal(spellEnglish("Dr. Lee paid $5.50."), "Doctor Lee paid five dollars and fifty cents.");
 * ```
 */
export function spellEnglish(text: string): string {
  const said = applyRules(text, RULES).trim();
  if (/\p{Ll}/u.test(text) || !SHOUTED.test(text)) return said;
  return said.replaceAll(/\p{Lu}{2,}/gu, (word) => word.toLowerCase());
}
