/**
 * Recognizes Roman numerals in English texts.
 *
 * @module
 */
import type { NumberWords } from "../number_words.ts";
import { parseRoman } from "../roman.ts";
import { type Rule, verbatim } from "../token.ts";

/** Names of rulers, whose numerals are ordinals. */
const RULERS =
  "Alexander|Alfonso|Benedict|Carlos|Catherine|Charles|Christian|Clement|Cleopatra|Edward|Elizabeth|Felipe|Ferdinand|" +
  "Ford|Francis|Frederick|George|Gregory|Gustav|Harald|Henry|Innocent|Ivan|James|John|Leo|Leopold|Louis|Margrethe|Mary|" +
  "Napoleon|Nicholas|Otto|Paul|Peter|Philip|Pius|Ptolemy|Ramesses|Richard|Umberto|Urban|Wilhelm|William";
/** What is counted with them, one and five too. */
const COUNTED =
  "act|appendix|article|book|bowl|chapter|class|episode|figure|grade|level|part|phase|scene|section|stage|table|title|" +
  "type|vol\\.|volume|war";
/** Up to 89. */
const NUMERAL = String.raw`(?=[IVXL])L?X{0,3}(?:IX|IV|V?I{0,3})`;
/** More than one letter; not those that are sizes and short forms more often. */
const LONG = String.raw`(?!(?:L|LX|IV|XL|XX|XXX|LI|LV)\b)(?=[IVXL]{2})${NUMERAL}`;

/** Numerals of rulers, centuries, chapters and the like. */
export function romanRules(numbers: NumberWords): Rule[] {
  const cardinal = (numeral: string) => verbatim(numbers.cardinal(parseRoman(numeral)));
  const ordinal = (numeral: string) => numbers.ordinal(parseRoman(numeral));
  return [
    {
      pattern: new RegExp(
        String.raw`(?<![\p{L}\d'-])(${NUMERAL})(?:(?:st|nd|rd|th)\b|(?= (?:century|centuries)\b))`,
        "uy",
      ),
      read: ([numeral]) => numeral ? verbatim(ordinal(numeral)) : undefined,
    },
    {
      // Alone, I is a word.
      pattern: new RegExp(
        String
          .raw`(?<=\b(?:${RULERS}) )(?:(${LONG}|IV|V|X)|(I)(?=[,.;:)']| (?:of|was|had|reigned|ruled|died|and)\b|$))` +
          String.raw`(?![\p{L}\d-])`,
        "uy",
      ),
      read: ([numeral, one]) => verbatim(`the ${ordinal((numeral ?? one)!)}`),
    },
    {
      pattern: new RegExp(
        String.raw`(?<=\b(?:${COUNTED}|${titled(COUNTED)}) )(${NUMERAL})(?![\p{L}\d'-])`,
        "uy",
      ),
      read: ([numeral]) => numeral ? cardinal(numeral) : undefined,
    },
    {
      pattern: new RegExp(String.raw`(?<=(?<!\p{L})\p{Lu}\p{L}+ )(${LONG})(?![\p{L}\d'-])`, "uy"),
      read: ([numeral]) => numeral ? cardinal(numeral) : undefined,
    },
  ];
}

const titled = (words: string) =>
  words.replaceAll(/(?<=^|\|)\p{Ll}/gu, (letter) => letter.toUpperCase());
