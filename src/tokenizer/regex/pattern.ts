import { Matcher } from "./matcher.ts";
import { compileRegex, type Program } from "./program.ts";

/** Something to search for in a text: a regular expression or a plain string. */
export interface Pattern {
  /**
   * All matches in a text from left to right: start and end of each, alternating.
   *
   * @throws {BudgetError} when the search takes too many steps.
   */
  findAll(text: string): number[];
}

/**
 * A regular expression in Oniguruma's syntax.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const words = new RegexPattern("\\p{L}+|\\s+(?!\\S)|\\s");
 * assert.deepEqual(words.findAll("ab  c"), [0, 2, 2, 3, 3, 4, 4, 5]);
 * ```
 */
export class RegexPattern implements Pattern {
  readonly #program: Program;

  /** @throws {SyntaxError} saying what is invalid or unknown. */
  constructor(source: string) {
    this.#program = compileRegex(source);
  }

  findAll(text: string): number[] {
    const found: number[] = [];
    const matcher = new Matcher(this.#program, text);
    let lastEnd = -1;
    for (let from = 0; from <= text.length;) {
      const match = matcher.find(from);
      if (match === undefined) break;
      const [start, end] = match;
      // An empty match right after another match does not count.
      if (start === end && end === lastEnd) {
        from = end + (text.codePointAt(end)! > 0xffff ? 2 : 1);
        continue;
      }
      found.push(start, end);
      from = lastEnd = end;
    }
    return found;
  }
}

export class StringPattern implements Pattern {
  readonly #wanted: string;

  constructor(wanted: string) {
    this.#wanted = wanted;
  }

  findAll(text: string): number[] {
    const found: number[] = [];
    const { length } = this.#wanted;
    if (length === 0) return EMPTY_PATTERN.findAll(text);
    for (
      let at = text.indexOf(this.#wanted);
      at >= 0;
      at = text.indexOf(this.#wanted, at + length)
    ) {
      found.push(at, at + length);
    }
    return found;
  }
}

const EMPTY_PATTERN = new RegexPattern("");
