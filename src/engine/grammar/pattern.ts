/**
 * Compiles ECMA-262 regular expressions to expressions over bytes.
 *
 * @module
 */
import { ALL_CODE_POINTS, type CodePoints, encodeSet } from "./code_points.ts";
import { EMPTY_TEXT, Expressions, NOTHING } from "./expressions.ts";
import { GrammarError } from "./grammar.ts";
import { type Item, parsePattern, type Sequence } from "./pattern_parser.ts";

/** How a pattern is compiled. */
interface PatternOptions {
  readonly expressions: Expressions;
  /** Matches one character of a set, as the answer encodes it. */
  readonly encode: (points: CodePoints) => number;
  /** Whether the pattern may match a part of the text, as JSON schema's `pattern` does, rather than the whole. */
  readonly isSearch: boolean;
}

/** Maximum number of repetitions of an item with an assertion, because each repetition is unrolled. */
const MAX_ASSERTING_REPEATS = 16;
/** Maximum number of repetitions that nested quantifiers allow together. */
const MAX_NESTED_REPEATS = 2_000;

/**
 * Compiles a pattern.
 *
 * @throws {GrammarError} when it is not a valid pattern, or uses something that cannot be enforced: back references,
 * lookbehind, word boundaries, `^` after other items, and most repetitions of anchors or lookahead.
 */
export function readPattern(pattern: string, options: PatternOptions): number {
  return new PatternBuilder(options).build(parsePattern(pattern));
}

class PatternBuilder {
  readonly #expressions: Expressions;
  readonly #encode: (points: CodePoints) => number;
  readonly #sets = new Map<string, number>();
  /** Matches any text. */
  readonly #any: number;
  readonly #around: number;

  constructor({ expressions, encode, isSearch }: PatternOptions) {
    this.#expressions = expressions;
    this.#encode = encode;
    this.#any = expressions.repeat(this.#set(ALL_CODE_POINTS), 0, Infinity);
    this.#around = isSearch ? this.#any : EMPTY_TEXT;
  }

  build(options: readonly Sequence[]): number {
    return this.#expressions.or(options.map((items) => this.#first(items, this.#around)));
  }

  /** Matches a sequence at the start of the text, followed by `rest`. */
  #fromStart(items: Sequence, rest: number): number {
    const [first, ...others] = items;
    switch (first?.kind) {
      case "start":
        return this.#fromStart(others, rest);
      case "ahead": {
        const ahead = first.options.map((each) => this.#fromStart(each, this.#any));
        return this.#ahead(first, ahead, this.#fromStart(others, rest));
      }
      case "group":
        if (!first.options.some(hasAssertion)) return this.#sequence(items, rest);
        // After a group that can be empty, a start anchor could still match; in that position it is refused.
        return this.#expressions.or(
          first.options.map((each) => this.#fromStart(each, this.#sequence(others, rest))),
        );
      default:
        return this.#sequence(items, rest);
    }
  }

  /** Matches a sequence anywhere in the text, or at the start if it is anchored, followed by `rest`. */
  #first(items: Sequence, rest: number): number {
    const [first, ...others] = items;
    if (beginsAtStart(items) && first?.kind !== "group") return this.#fromStart(items, rest);
    if (first?.kind === "group" && first.options.some(beginsAtStart)) {
      const after = this.#sequence(others, rest);
      return this.#expressions.or(first.options.map((each) => this.#first(each, after)));
    }
    return this.#expressions.concat([this.#around, this.#sequence(items, rest)]);
  }

  #sequence(items: Sequence, rest: number): number {
    return items.reduceRight((after, item) => this.#item(item, after), rest);
  }

  /** Matches an item followed by `rest`. */
  #item(item: Item, rest: number): number {
    const { concat, or, isNullable } = bound(this.#expressions);
    switch (item.kind) {
      case "start":
        throw new GrammarError("the pattern cannot be used: ^ can only be enforced at its start");
      case "end":
        return isNullable(rest) ? EMPTY_TEXT : NOTHING;
      case "ahead":
        return this.#ahead(item, item.options.map((each) => this.#sequence(each, this.#any)), rest);
      case "group":
        if (item.options.some(hasAssertion)) {
          return or(item.options.map((each) => this.#sequence(each, rest)));
        }
        return concat([this.#plain(item), rest]);
      case "repeat":
        if (hasAssertion([item])) return this.#repeatAsserting(item, rest);
        return concat([this.#plain(item), rest]);
      default:
        return concat([this.#plain(item), rest]);
    }
  }

  #ahead(
    { isNegative }: Extract<Item, { kind: "ahead" }>,
    options: readonly number[],
    rest: number,
  ): number {
    const { or, and, not } = bound(this.#expressions);
    const ahead = or(options);
    return and([isNegative ? not(ahead) : ahead, rest]);
  }

  /** Unrolls repetitions of an item with an assertion. `#charsWithout` handles unbounded repetitions. */
  #repeatAsserting(repeat: Extract<Item, { kind: "repeat" }>, rest: number): number {
    const { item, min, max } = repeat;
    if (max === Infinity) return this.#charsWithout(repeat, rest);
    if (max > MAX_ASSERTING_REPEATS) throw cannotRepeat();
    let after = rest;
    for (let i = max; i > 0; i--) {
      const once = this.#item(item, after);
      after = i > min ? this.#expressions.or([once, rest]) : once;
    }
    return after;
  }

  /**
   * Matches patterns such as `(?:(?!no)[a-z])*` up to the end of the text: a run of characters, at none of which the
   * excluded text begins.
   */
  #charsWithout({ item, min, max }: Extract<Item, { kind: "repeat" }>, rest: number): number {
    const [ahead, char, ...others] = item.kind === "group" && item.options.length === 1
      ? item.options[0]!
      : [];
    const isPlain = ahead?.kind === "ahead" && ahead.isNegative && char?.kind === "set";
    if (!isPlain || others.length > 0 || rest !== EMPTY_TEXT) throw cannotRepeat();
    const { concat, or, and, not, isNullable } = bound(this.#expressions);
    const unwanted = or(ahead.options.map((each) => this.#sequence(each, this.#any)));
    if (isNullable(unwanted)) throw cannotRepeat();
    const chars = this.#expressions.repeat(this.#set(char.points), min, max);
    return and([chars, not(concat([this.#any, unwanted]))]);
  }

  /** Matches an item, regardless of what follows it. */
  #plain(item: Item): number {
    switch (item.kind) {
      case "set":
        return this.#set(item.points);
      case "group":
        return this.#expressions.or(
          item.options.map((each) => this.#expressions.concat(each.map((one) => this.#plain(one)))),
        );
      case "repeat":
        if (countRepeats(item) > MAX_NESTED_REPEATS) {
          throw new GrammarError(
            `the pattern cannot be used: its nested quantifiers allow more than ${MAX_NESTED_REPEATS} repetitions`,
          );
        }
        return this.#expressions.repeat(this.#plain(item.item), item.min, item.max);
      default:
        throw cannotRepeat();
    }
  }

  #set(points: CodePoints): number {
    const key = points.join(";");
    let expression = this.#sets.get(key);
    if (expression === undefined) this.#sets.set(key, expression = this.#encode(points));
    return expression;
  }
}

function cannotRepeat(): GrammarError {
  return new GrammarError(
    "the pattern cannot be used: an item with an anchor or lookahead cannot be repeated like this",
  );
}

function bound(expressions: Expressions) {
  return {
    concat: (parts: readonly number[]) => expressions.concat(parts),
    or: (parts: readonly number[]) => expressions.or(parts),
    and: (parts: readonly number[]) => expressions.and(parts),
    not: (part: number) => expressions.not(part),
    isNullable: (part: number) => expressions.isNullable(part),
  };
}

function beginsAtStart([first, ...others]: Sequence): boolean {
  if (first?.kind === "ahead") return beginsAtStart(others);
  return first?.kind === "start" || (first?.kind === "group" && first.options.some(beginsAtStart));
}

function hasAssertion(items: Sequence): boolean {
  return items.some((item) =>
    item.kind === "start" || item.kind === "end" || item.kind === "ahead" ||
    (item.kind === "group" && item.options.some(hasAssertion)) ||
    (item.kind === "repeat" && hasAssertion([item.item]))
  );
}

/** Counts the total repetitions of nested bounded quantifiers; 1 if there is only one quantifier. */
function countRepeats({ item, min, max }: Extract<Item, { kind: "repeat" }>): number {
  const inner = Math.max(1, ...innerRepeats([item]));
  const own = max === Infinity ? min : max;
  return inner === 1 ? 1 : inner * Math.max(1, own);
}

function innerRepeats(items: Sequence): number[] {
  return items.flatMap((item) => {
    if (item.kind === "group") return item.options.flatMap(innerRepeats);
    if (item.kind !== "repeat") return [];
    const own = Math.max(1, item.max === Infinity ? item.min : item.max);
    return [own * Math.max(1, ...innerRepeats([item.item]))];
  });
}

/**
 * Makes a test of whether a pattern is found in a name. It takes time linear in the name's length.
 *
 * @returns the test, or an error if the pattern is invalid. The test returns false if matching is too complex.
 */
export function makePatternTest(pattern: string): ((name: string) => boolean) | GrammarError {
  const expressions = new Expressions();
  expressions.beginWork();
  try {
    const encode = (points: Parameters<typeof encodeSet>[1]) => encodeSet(expressions, points);
    const expression = readPattern(pattern, { expressions, encode, isSearch: true });
    return (name) => {
      try {
        return expressions.matches(expression, name);
      } catch (error) {
        if (error instanceof GrammarError) return false;
        throw error;
      }
    };
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
}
