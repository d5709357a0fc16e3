/**
 * The classes of tokens that a text has beside words, as text normalization for speech names them (Sparrowhawk, NeMo).
 * Decimals are cardinals; a range is two tokens, and the scanner reads the dash between them.
 *
 * @module
 */

export type TokenClass =
  | "cardinal"
  | "ordinal"
  | "date"
  | "time"
  | "money"
  | "measure"
  | "fraction"
  | "telephone"
  | "roman"
  | "electronic"
  | "verbatim";

/**
 * What a token is made of, as the text has it: the named groups of its pattern, by class.
 *
 * - All: `text`, the whole token unless a group has this name.
 * - Cardinal, money, measure: `minus`, `number`, `last` (the end of a range), `scale` (`million`), `currency`, `unit`,
 *   `power` (`²`), `per` and `perPower` (behind a stroke), `hyphen` (`5-km`).
 * - Ordinal: `number`, `mark` (`th`, `ª`). Roman: `numeral`, `mark` where it is an ordinal.
 * - Date: `day`, `lastDay`, `month` (a name or a number), `year`. Time: `hour`, `minute`, `second`, `half` (`a`, `p`).
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

/**
 * Makes rules of one class, with the pattern as a template.
 *
 * @param fields those that all its tokens have.
 * @example rule("time")`(?<hour>\d\d):(?<minute>\d\d)`
 */
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

/** Rules without a condition, by their class. */
export const tag = {
  cardinal: rule("cardinal"),
  date: rule("date"),
  electronic: rule("electronic"),
  measure: rule("measure"),
  ordinal: rule("ordinal"),
  ordinalNumeral: rule("roman", { mark: "ordinal" }),
  roman: rule("roman"),
  telephone: rule("telephone"),
  time: rule("time"),
};

/** Makes rules for signs, abbreviations and names that a condition accepts: what is said, and the pattern. */
export function wordsIf(accepts?: Condition): ReturnType<typeof rule> {
  return (template, ...parts) => {
    const [said = "", pattern = ""] = String.raw(template, ...parts).split(/ ?<- (.*)/s);
    return rule("verbatim", { said }, accepts)`${pattern}`;
  };
}

/** The same without a condition: words`versus <- \bvs\b`. */
export const words: ReturnType<typeof rule> = wordsIf();
