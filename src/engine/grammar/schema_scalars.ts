/**
 * The strings and numbers of schemas, as expressions.
 *
 * @module
 */
import { ALL_CODE_POINTS, type CodePoints, encodeSet } from "./code_points.ts";
import { ANYTHING, type Expressions } from "./expressions.ts";
import { NUMBER_FORMATS, patternOfFormat } from "./formats.ts";
import { GrammarError, ImpossibleError } from "./grammar.ts";
import { anyJsonChar, anyText, encodeJsonSet, inside, quoted } from "./json_text.ts";
import {
  isEnforceableDivisor,
  MAX_DIVISOR,
  MAX_DIVISOR_DIGITS,
  type NumberBounds,
  numberExpression,
} from "./numbers.ts";
import { readPattern } from "./pattern.ts";
import type { SchemaNode } from "./schema_document.ts";
import { listValues } from "./schema_facts.ts";

/** How strings are spelled. */
interface Spelling {
  /** Matches one character of a set, in a single spelling. */
  encode(points: CodePoints): number;
  /** Matches any character, in any spelling. */
  readonly anyChar: number;
  /** Spells a text, in a single spelling and without quotation marks. */
  inside(text: string): string;
  /** Matches whole strings, given an expression for their contents. */
  whole(inside: number): number;
}

/** Spells strings as JSON. */
function jsonSpelling(expressions: Expressions): Spelling {
  return {
    encode: (points) => encodeJsonSet(expressions, points),
    anyChar: anyJsonChar(expressions),
    inside,
    whole: (inner) => quoted(expressions, inner),
  };
}

/** Spells strings as plain text. @param without must not occur in any of them. */
export function plainSpelling(expressions: Expressions, without: string): Spelling {
  const encode = (points: CodePoints) => encodeSet(expressions, points);
  const contains = expressions.concat([ANYTHING, expressions.text(without), ANYTHING]);
  return {
    encode,
    anyChar: encode(ALL_CODE_POINTS),
    inside: (text) => text,
    whole: (inner) => expressions.and([inner, expressions.not(contains)]),
  };
}

/** The strings and numbers of one grammar. Equal expressions are made once. */
export class SchemaScalars {
  readonly #expressions: Expressions;
  readonly #spelling: Spelling;
  readonly #patterns = new Map<string, number>();
  readonly #canonicalChar: number;

  constructor(expressions: Expressions, spelling = jsonSpelling(expressions)) {
    this.#expressions = expressions;
    this.#spelling = spelling;
    this.#canonicalChar = spelling.encode(ALL_CODE_POINTS);
  }

  /** Matches the contents of strings that all nodes allow, each character in a single spelling. */
  canonicalInside(nodes: readonly SchemaNode[]): number {
    const { min, max } = findLengths(nodes);
    const chars = this.#expressions.repeat(this.#canonicalChar, min, Math.max(min, max));
    return this.#expressions.and([chars, ...this.#compilePatterns(nodes)]);
  }

  /** Matches strings that all nodes allow, with quotation marks. */
  string(nodes: readonly SchemaNode[]): number {
    const { min, max } = findLengths(nodes);
    const patterns = this.#compilePatterns(nodes);
    const char = patterns.length > 0 ? this.#canonicalChar : this.#spelling.anyChar;
    const chars = this.#expressions.repeat(char, min, Math.max(min, max));
    return this.#spelling.whole(this.#expressions.and([chars, ...patterns]));
  }

  /** Matches those of the given texts that all nodes allow, with quotation marks. */
  listed(texts: readonly string[], nodes: readonly SchemaNode[]): number {
    const allowed = this.canonicalInside(nodes);
    const found = texts.map((text) => this.#spelling.inside(text))
      .filter((text) => this.#expressions.matches(allowed, text));
    return this.#spelling.whole(anyText(this.#expressions, found));
  }

  /** Matches JSON strings in which a pattern is found. */
  pattern(pattern: string, param: string): number {
    const key = pattern;
    let expression = this.#patterns.get(key);
    if (expression === undefined) {
      expression = at(param, () =>
        readPattern(pattern, {
          expressions: this.#expressions,
          encode: (points) => this.#spelling.encode(points),
          isSearch: true,
        }));
      this.#patterns.set(key, expression);
    }
    return expression;
  }

  number(nodes: readonly SchemaNode[], isInteger: boolean): number {
    return numberExpression(this.#expressions, findBounds(nodes, isInteger));
  }

  #compilePatterns(nodes: readonly SchemaNode[]): number[] {
    const patterns = listValues<string>(nodes, "pattern").map(({ value, param }) =>
      this.pattern(value, param)
    );
    const formats = listValues<string>(nodes, "format").flatMap(({ value, param }) => {
      const pattern = patternOfFormat(value);
      return pattern === undefined ? [] : [this.pattern(pattern, param)];
    });
    return [...patterns, ...formats].filter((each) => each !== ANYTHING);
  }
}

function findLengths(nodes: readonly SchemaNode[]): { min: number; max: number } {
  const mins = listValues<number>(nodes, "minLength");
  const maxes = listValues<number>(nodes, "maxLength");
  const min = Math.max(0, ...mins.map(({ value }) => value));
  const max = Math.min(Infinity, ...maxes.map(({ value }) => value));
  if (min > max) {
    throw new ImpossibleError(
      `no string has at least ${min} and at most ${max} characters`,
      maxes[0]!.param,
    );
  }
  return { min, max };
}

/** Finds the bounds of numbers. `exclusiveMinimum: true` together with `minimum` is the notation of draft 4. */
function findBounds(nodes: readonly SchemaNode[], isWhole: boolean): NumberBounds {
  let isInteger = isWhole;
  let min: NumberBounds["min"];
  let max: NumberBounds["max"];
  const raise = (value: number, isExclusive: boolean) => {
    if (min === undefined || value > min.value || (value === min.value && isExclusive)) {
      min = { value, isExclusive };
    }
  };
  const lower = (value: number, isExclusive: boolean) => {
    if (max === undefined || value < max.value || (value === max.value && isExclusive)) {
      max = { value, isExclusive };
    }
  };
  const multipleOf: number[] = [];
  for (const { keywords } of nodes) {
    if (keywords === false) continue;
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, format } = keywords;
    if (typeof minimum === "number") raise(minimum, exclusiveMinimum === true);
    if (typeof maximum === "number") lower(maximum, exclusiveMaximum === true);
    if (typeof exclusiveMinimum === "number") raise(exclusiveMinimum, true);
    if (typeof exclusiveMaximum === "number") lower(exclusiveMaximum, true);
    const limits = typeof format === "string" && Object.hasOwn(NUMBER_FORMATS, format)
      ? NUMBER_FORMATS[format]
      : undefined;
    if (limits?.min !== undefined) raise(limits.min, false);
    if (limits?.max !== undefined) lower(limits.max, false);
    if (limits !== undefined && /int/.test(format as string)) isInteger = true;
  }
  for (const { value, param } of listValues<number>(nodes, "multipleOf")) {
    if (!isEnforceableDivisor(value)) {
      throw new GrammarError(
        `only multiples of numbers with up to ${MAX_DIVISOR_DIGITS} digits after the point, which ` +
          `without the point are at most ${MAX_DIVISOR}, can be enforced`,
        param,
      );
    }
    isInteger ||= Number.isInteger(value);
    if (value !== 1) multipleOf.push(value);
  }
  return { isInteger, min, max, multipleOf };
}

/** Runs a parser of part of the request, and adds the part's path to its errors. */
export function at<T>(param: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof GrammarError) || error.param !== undefined) throw error;
    throw new GrammarError(error.message, param);
  }
}
