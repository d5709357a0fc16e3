/**
 * The tokens of a text other than words: their classes, named as in text normalization (Sparrowhawk, NeMo); the rules
 * that recognise them; and the scanner, which classifies each token once, from left to right, and verbalizes it.
 * Decimals are cardinals. A range of amounts or days may be one token. Any other range is two tokens, and the scanner
 * reads the dash between them.
 *
 * @module
 */
import { type NumberStyle, readNumber } from "./numbers.ts";

const CLASSES = [
  "cardinal",
  "ordinal",
  "date",
  "time",
  "money",
  "measure",
  "fraction",
  "telephone",
  "roman",
  "electronic",
  "verbatim",
] as const;

export type TokenClass = typeof CLASSES[number];

/**
 * The parts of a token, as written in the text: the named groups of its pattern, by class.
 *
 * - All: `text`, the whole token unless a group has this name.
 * - Cardinal, money, measure: `minus`, `number`, `last` (the end of a range), `scale` (`million`), `currency`, `unit`,
 *   `power` (`²`), `per` and `perPower` (after a slash), `hyphen` (`5-km`).
 * - Ordinal: `number`, `mark` (`th`, `ª`). Roman: `numeral`, `mark` if it is an ordinal.
 * - Date: `day`, `lastDay`, `month` (a name or a number), `year`, `decade`, and `the` if the day comes first.
 * - Time: `hour`, `minute`, `second`, `half` (`a`, `p`), `zone`.
 * - Fraction: `whole`, then `numerator` and `denominator` or a sign such as `½` (`vulgar`), and `unit`.
 * - Verbatim: `said`, words with fields between them: "{number} over {last}", or "{text:spell}" to spell it.
 */
export type Fields = Readonly<Record<string, string | undefined>>;

/** The text around a token. */
export interface Context {
  /** The characters before it. */
  readonly before: string;
  /** The characters after it. */
  readonly after: string;
}

/** Distinguishes a token from other text that looks like it. */
export type Condition = (fields: Fields, context: Context) => boolean;

/** Recognises tokens of one class. */
export interface Rule {
  readonly kind: TokenClass;
  /** Pattern that is matched at positions where a token may begin. */
  readonly pattern: RegExp;
  /** Fields that all tokens of the rule have. */
  readonly fields?: Fields | undefined;
  readonly accepts?: Condition | undefined;
}

/** Verbalizes the tokens of each class in one language. */
export type Verbalizer = Readonly<
  Record<TokenClass, (fields: Fields, context: Context) => string>
>;

/** Makes rules of one class with fixed fields; the pattern is a template literal. */
export function rule(
  kind: TokenClass,
  fields?: Fields,
  accepts?: Condition,
): (template: TemplateStringsArray, ...parts: readonly string[]) => Rule {
  return (template, ...parts) => ({
    kind,
    pattern: new RegExp(String.raw(template, ...parts), "uy"),
    fields,
    accepts,
  });
}

/** Makes rules without a condition, by class: tag.time`(?<hour>\d\d):(?<minute>\d\d)`. */
export const tag = Object.fromEntries(CLASSES.map((kind) => [kind, rule(kind)])) as Readonly<
  Record<TokenClass, ReturnType<typeof rule>>
>;

/** Makes rules for symbols, abbreviations and names, from the words and the pattern: words`versus <- \bvs\b`. */
export function words(template: TemplateStringsArray, ...parts: readonly string[]): Rule {
  const [said = "", pattern = ""] = String.raw(template, ...parts).split(/ ?<- (.*)/s);
  return rule("verbatim", { said })`${pattern}`;
}

/** Number of characters before and after a token that conditions can see. */
const CONTEXT_CHARS = 120;

/** A language's rules and words for the scanner. */
export interface Grammar extends NumberStyle {
  /** Rules in the order in which they are tried. */
  readonly rules: readonly Rule[];
  readonly verbalizer: Verbalizer;
  /** Words for symbols that no rule reads; an empty text means a space. */
  readonly signs: ReadonlyMap<string, string>;
  readonly signPattern: RegExp;
}

/** A word up to an apostrophe, after which an abbreviation may follow: `l'art. 3`. */
const WORD = /[\p{L}\p{M}]+['\u2019]?/uy;
/** A dash that may stand for a range, a minus or a score. */
const DASH = /(\s?)[-\u2013\u2212](\s?)(?=[\d$\u20ac\u00a3\u00a5]|\p{L})/uy;
/** The end of a word. Where a word ends and another begins, a space separates them. */
const ENDS_IN_WORD = /[\p{L}\p{N}]$/u;
/** The beginning of a word. */
const BEGINS_WITH_WORD = /^[\p{L}\p{N}]/u;
/** Classes of tokens that can form ranges. */
const RANGED = "cardinal date measure money ordinal time".split(" ");

interface Match {
  readonly kind: TokenClass;
  readonly fields: Fields;
  readonly context: Context;
  readonly end: number;
}

/** Normalizes one text. */
export class Scanner {
  readonly #text: string;
  readonly #grammar: Grammar;
  #said = "";
  /** The token that ended right before the next position. */
  #previous: Match | undefined;

  constructor(text: string, grammar: Grammar) {
    this.#text = text;
    this.#grammar = grammar;
  }

  run(): string {
    for (let at = 0; at < this.#text.length;) at = this.#step(at);
    return this.#said.replaceAll(/\s+/g, " ").replaceAll(/\s+(?=[,.;:!?)])/g, "").trim();
  }

  /** Reads one token, word or symbol, and returns the position after it. */
  #step(at: number): number {
    const dash = this.#readDash(at);
    if (dash !== undefined) return dash;
    const match = this.#match(at);
    this.#previous = match;
    if (match !== undefined) {
      this.#add(this.#grammar.verbalizer[match.kind](match.fields, match.context));
      return match.end;
    }
    WORD.lastIndex = at;
    const word = WORD.exec(this.#text)?.[0];
    if (word !== undefined) {
      this.#add(word);
      return at + word.length;
    }
    const { signs, signPattern } = this.#grammar;
    signPattern.lastIndex = at;
    const sign = signPattern.exec(this.#text)?.[0];
    this.#said += sign === undefined ? this.#text[at] : ` ${signs.get(sign)} `;
    return at + (sign?.length ?? 1);
  }

  #match(at: number): Match | undefined {
    const before = this.#text.slice(Math.max(0, at - CONTEXT_CHARS), at);
    for (const { kind, pattern, fields: common, accepts } of this.#grammar.rules) {
      pattern.lastIndex = at;
      const match = pattern.exec(this.#text);
      if (match === null || match[0] === "") continue;
      const end = at + match[0].length;
      const context = { before, after: this.#text.slice(end, end + CONTEXT_CHARS) };
      const fields: Fields = { text: match[0], ...match.groups, ...common };
      if (accepts?.(fields, context) ?? true) return { kind, fields, context, end };
    }
    return undefined;
  }

  /** Reads a dash between two tokens with numbers, which stands for a range, a score or a minus. */
  #readDash(at: number): number | undefined {
    const { to, versus, minus, decimalSign } = this.#grammar;
    const first = this.#previous;
    if (first === undefined || !RANGED.includes(first.kind)) return undefined;
    DASH.lastIndex = at;
    const dash = DASH.exec(this.#text);
    if (dash === null) return undefined;
    const last = this.#match(at + dash[0].length);
    if (last === undefined || !RANGED.includes(last.kind)) return undefined;
    const isSign = dash[0].includes("\u2212") || dash[1] !== "" && dash[2] === "";
    const isEquation = /^\s?=/.test(last.context.after);
    // In a range, the second number must be greater; otherwise it is a score.
    const read = ({ kind, fields: { number } }: Match) =>
      kind === "cardinal" ? Number(readNumber(number!, decimalSign)) : NaN;
    const isScore = read(first) >= read(last);
    const word = isSign || isEquation ? minus : isScore ? versus : to;
    if (word === undefined) return undefined;
    this.#said += ` ${word} `;
    return at + dash[0].length;
  }

  #add(said: string) {
    const needsBlank = ENDS_IN_WORD.test(this.#said) && BEGINS_WITH_WORD.test(said);
    this.#said += needsBlank ? ` ${said}` : said;
  }
}
