/**
 * English: Roman numerals.
 *
 * @module
 */
import { sayNumber, sayOrdinal } from "./english_numbers.ts";
import type { Rule } from "./rule.ts";

const VALUES: Readonly<Record<string, number>> = { I: 1, V: 5, X: 10, L: 50 };

/** Names of rulers, whose numerals are ordinals. */
const RULERS =
  "Alexander|Alfonso|Benedict|Carlos|Catherine|Charles|Christian|Clement|Cleopatra|Edward|Elizabeth|Felipe|Ferdinand|" +
  "Ford|Francis|Frederick|George|Gregory|Gustav|Harald|Henry|Innocent|Ivan|James|John|Leo|Leopold|Louis|Margrethe|Mary|" +
  "Napoleon|Nicholas|Otto|Paul|Peter|Philip|Pius|Ptolemy|Ramesses|Richard|Umberto|Urban|Wilhelm|William";
/** What is counted with them, one and five too. */
const COUNTED =
  "act|appendix|article|book|bowl|chapter|class|episode|figure|grade|level|part|phase|scene|section|stage|table|title|" +
  "type|vol\\.|volume|war";
/** Up to 89, and no words. */
const NUMERAL = String.raw`(?=[IVXL])L?X{0,3}(?:IX|IV|V?I{0,3})`;
/** More than one letter; not IV, IX, VI and XX alone, which are short forms and sizes more often. */
const LONG = String.raw`(?!(?:L|LX|IV|XL|XX|XXX|LI|LV)\b)(?=[IVXL]{2})${NUMERAL}`;

function valueOf(numeral: string): string {
  const values = [...numeral].map((letter) => VALUES[letter]!);
  const sum = values.reduce(
    (sum, value, i) => sum + (value < (values[i + 1] ?? 0) ? -value : value),
    0,
  );
  return String(sum);
}

export const ROMAN_RULES: readonly Rule[] = [
  [/\bWW(?=I{1,2}\b)/g, () => "World War "],
  [
    new RegExp(String.raw`\b(${NUMERAL})(?:(?:st|nd|rd|th)\b|(?= (?:century|centuries)\b))`, "gi"),
    (match, numeral) => /^\p{Lu}/u.test(numeral!) ? sayOrdinal(valueOf(numeral!)) : match,
  ],
  [
    // Alone, I is a word.
    new RegExp(
      String
        .raw`(?<=\b(?:${RULERS}) )(?:(${LONG}|IV|V|X)|(I)(?=[,.;:)']| (?:of|was|had|reigned|ruled|died)\b|$))(?![\w-])`,
      "g",
    ),
    (_, numeral, one) => `the ${sayOrdinal(valueOf((numeral ?? one)!))}`,
  ],
  [
    new RegExp(String.raw`(?<=\b(?:${COUNTED}) )(${NUMERAL})(?![\w'-])`, "gi"),
    (match, numeral) => /^\p{Lu}+$/u.test(numeral!) ? sayNumber(valueOf(numeral!)) : match,
  ],
  [
    new RegExp(String.raw`(?<=\b\p{Lu}\p{L}+ )(${LONG})(?![\w'-])`, "gu"),
    (_, numeral) => sayNumber(valueOf(numeral!)),
  ],
];
