/**
 * Regular expressions as ECMA-262 writes them, as expressions over bytes.
 *
 * @module
 */
import { ALL_CODE_POINTS, type CodePoints } from "./code_points.ts";
import { EMPTY_TEXT, type Expressions, NOTHING } from "./expressions.ts";
import { GrammarError } from "./grammar_error.ts";
import { type Item, parsePattern, type Sequence } from "./pattern_parser.ts";

/** How a pattern is read. */
interface PatternOptions {
  readonly expressions: Expressions;
  /** How one character of a set is spelled in the answer. */
  readonly encode: (points: CodePoints) => number;
  /** Whether a part of the text may match, as with JSON schema's `pattern`; else the whole must. */
  readonly isSearch: boolean;
}

/** Most repetitions by nested quantifiers. */
const MAX_NESTED_REPEATS = 2_000;

/**
 * What a pattern matches.
 *
 * @throws {GrammarError} when it is not a pattern, or uses what cannot be enforced: back references, lookbehind, word
 * boundaries, and anchors or lookahead inside it.
 */
export function readPattern(pattern: string, options: PatternOptions): number {
  return new PatternBuilder(options).build(parsePattern(pattern));
}

class PatternBuilder {
  readonly #expressions: Expressions;
  readonly #encode: (points: CodePoints) => number;
  readonly #sets = new Map<string, number>();
  /** Any text. */
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

  /** A sequence that may begin anywhere, or at the start if anchored; `rest` is all that follows it. */
  #first(items: Sequence, rest: number): number {
    const [first, ...others] = items;
    if (first?.kind === "start") return this.#sequence(others, rest);
    if (first?.kind === "group" && first.options.some(beginsAtStart)) {
      const after = this.#sequence(others, rest);
      return this.#expressions.or(first.options.map((each) => this.#first(each, after)));
    }
    return this.#expressions.concat([this.#around, this.#sequence(items, rest)]);
  }

  #sequence(items: Sequence, rest: number): number {
    return items.reduceRight((after, item) => this.#item(item, after), rest);
  }

  /** An item and all that follows it. */
  #item(item: Item, rest: number): number {
    const { concat, or, and, not, isNullable } = bound(this.#expressions);
    switch (item.kind) {
      case "start":
        throw new GrammarError("the pattern cannot be used: ^ can be enforced at its start alone");
      case "end":
        return isNullable(rest) ? EMPTY_TEXT : NOTHING;
      case "ahead": {
        const ahead = or(item.options.map((each) => this.#sequence(each, this.#any)));
        return and([item.isNegative ? not(ahead) : ahead, rest]);
      }
      case "group":
        if (item.options.some(hasAssertion)) {
          return or(item.options.map((each) => this.#sequence(each, rest)));
        }
        return concat([this.#plain(item), rest]);
      default:
        return concat([this.#plain(item), rest]);
    }
  }

  /** An item whatever follows it. */
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
          throw new GrammarError("the pattern cannot be used: it repeats repetitions too often");
        }
        return this.#expressions.repeat(this.#plain(item.item), item.min, item.max);
      default:
        throw new GrammarError(
          "the pattern cannot be used: anchors and looking ahead cannot be repeated",
        );
    }
  }

  #set(points: CodePoints): number {
    const key = points.join(";");
    let expression = this.#sets.get(key);
    if (expression === undefined) this.#sets.set(key, expression = this.#encode(points));
    return expression;
  }
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

function beginsAtStart([first]: Sequence): boolean {
  return first?.kind === "start" || (first?.kind === "group" && first.options.some(beginsAtStart));
}

function hasAssertion(items: Sequence): boolean {
  return items.some((item) =>
    item.kind === "start" || item.kind === "end" || item.kind === "ahead" ||
    (item.kind === "group" && item.options.some(hasAssertion)) ||
    (item.kind === "repeat" && hasAssertion([item.item]))
  );
}

/** Total repetitions of nested bounded quantifiers; 1 where there is only one. */
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
