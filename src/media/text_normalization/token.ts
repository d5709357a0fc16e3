/**
 * The classes of tokens that a text has beside words, as text normalization for speech names them (Sparrowhawk, NeMo).
 * Decimals are cardinals; a range is two tokens, and the scanner reads the dash between them.
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

/** What stands around a token. */
export interface Context {
  /** The characters before it. */
  readonly before: string;
  /** The characters after it. */
  readonly after: string;
}

/** Tells a token from something else that looks like it. */
export type Condition = (fields: Fields, context: Context) => boolean;

/** Recognizes tokens of one class. */
export interface Rule {
  readonly kind: TokenClass;
  /** Matched where a token may begin. */
  readonly pattern: RegExp;
  /** Fields that all its tokens have. */
  readonly fields?: Fields | undefined;
  readonly accepts?: Condition | undefined;
}

/** Says the tokens of each class in one language. */
export type Verbalizer = Readonly<
  Record<TokenClass, (fields: Fields, context: Context) => string>
>;

/** Makes rules of one class, whose tokens all have some fields, with the pattern as a template. */
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

/** Makes rules without a condition, by their class: tag.time`(?<hour>\d\d):(?<minute>\d\d)`. */
export const tag = Object.fromEntries(CLASSES.map((kind) => [kind, rule(kind)])) as Readonly<
  Record<TokenClass, ReturnType<typeof rule>>
>;

/** Makes rules for signs, abbreviations and names: what is said, and the pattern, as in words`versus <- \bvs\b`. */
export function words(template: TemplateStringsArray, ...parts: readonly string[]): Rule {
  const [said = "", pattern = ""] = String.raw(template, ...parts).split(/ ?<- (.*)/s);
  return rule("verbatim", { said })`${pattern}`;
}
