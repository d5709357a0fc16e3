/**
 * Recognizes abbreviations.
 *
 * @module
 */
import { matchAny, parseTable } from "./tables.ts";
import { type Rule, verbatim } from "./token.ts";

/** The abbreviations of a language, as tables. A blank in a key may be absent from the text. */
export interface Abbreviations {
  /** Written with a full stop, which is part of them: `Dr` is "Doctor". */
  readonly stopped: string;
  /** The same, before a number alone: `p. 3`, `vol. II`. */
  readonly counted: string;
  /** Written as they are: `w/o`. */
  readonly plain: string;
}

/** A full stop that is part of an abbreviation; the one that also ends the sentence stays in the text. */
export const STOP = String.raw`(?:\.(?=\s*[^\s"')\]\u201d\u2019])|(?=\.))`;

/** Rules for all three kinds. */
export function abbreviationRules({ stopped, counted, plain }: Abbreviations): Rule[] {
  const rule = (table: string, createPattern: (names: string) => string): Rule[] => {
    const words = parseTable(table);
    if (words.size === 0) return [];
    const compact = new Map([...words].map(([key, word]) => [key.replaceAll(" ", ""), word]));
    const names = matchAny(words.keys()).replaceAll(" ", "\\s?");
    return [{
      pattern: new RegExp(createPattern(`(?<![\\p{L}\\d.])(${names})`), "uy"),
      read: ([name]) => verbatim(compact.get(name!.replaceAll(/\s/g, ""))!),
    }];
  };
  return [
    ...rule(plain, (names) => String.raw`${names}(?![\p{L}\d])`),
    ...rule(
      counted,
      (names) =>
        String.raw`${names}\.(?=\s?\(?(?:[\d#]|[IVXL]{2,}(?![\p{L}\d])|[VX](?![\p{L}\d])))`,
    ),
    ...rule(stopped, (names) => names + STOP),
  ];
}
