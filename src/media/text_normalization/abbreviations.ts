/**
 * Recognizes abbreviations.
 *
 * @module
 */
import { matchAny } from "./numbers.ts";
import { type Rule, words } from "./token.ts";

type Table = Readonly<Record<string, string>>;

/** The abbreviations of a language. A blank in a key may be absent from the text. */
export interface Abbreviations {
  /** Written with a full stop, which is part of them: `Dr` is "Doctor". */
  readonly stopped: Table;
  /** The same, before a number alone: `p. 3`, `vol. II`. */
  readonly counted: Table;
  /** Written as they are: `w/o`. */
  readonly plain: Table;
}

/** A full stop that is part of an abbreviation; the one that also ends the sentence stays in the text. */
export const STOP = String.raw`(?:\.(?=\s*[^\s"')\]\u201d\u2019])|(?=\.))`;

/** Rules for all three kinds; the words for them are found by `sayAbbreviation`. */
export function abbreviationRules({ stopped, counted, plain }: Abbreviations): Rule[] {
  const read = (table: Table, end: string) => {
    const names = matchAny(Object.keys(table)).replaceAll(" ", "\\s?");
    return words`{text:abbreviation} <- (?<![\p{L}\d.])(?<text>${names})${end}`;
  };
  return [
    read(plain, String.raw`(?![\p{L}\d])`),
    read(counted, String.raw`\.(?=\s?\(?(?:[\d#]|(?:[IVXL]{2,}|[VX])(?![\p{L}\d])))`),
    read(stopped, STOP),
  ];
}

/** Finds the words for an abbreviation, with blanks or without. */
export function createAbbreviationReader(
  { stopped, counted, plain }: Abbreviations,
): (written: string) => string {
  const compact = (text: string) => text.replaceAll(/\s/g, "");
  const words = new Map(
    Object.entries({ ...stopped, ...counted, ...plain })
      .map(([key, word]) => [compact(key), word] as const),
  );
  return (written) => words.get(compact(written))!;
}
