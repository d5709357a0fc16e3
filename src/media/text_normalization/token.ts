/**
 * The classes of tokens other than words, by their names in text normalization (Sparrowhawk, NeMo). Decimals are
 * cardinals. A range is two tokens, and the scanner reads the dash between them.
 *
 * @module
 */

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
 * What a token is made of, as the text has it: the named groups of its pattern, by class.
 *
 * - All: `text`, the whole token unless a group has this name.
 * - Cardinal, money, measure: `minus`, `number`, `last` (the end of a range), `scale` (`million`), `currency`, `unit`,
 *   `power` (`²`), `per` and `perPower` (behind a stroke), `hyphen` (`5-km`).
 * - Ordinal: `number`, `mark` (`th`, `ª`). Roman: `numeral`, `mark` where it is an ordinal.
 * - Date: `day`, `lastDay`, `month` (a name or a number), `year`, `decade`, and `the` where the day comes first.
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

/** Recognizes tokens of one class. */
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
