/**
 * Which names a pattern of `patternProperties` is found in.
 *
 * @module
 */
import { encodeSet } from "./code_points.ts";
import { Expressions } from "./expressions.ts";
import { GrammarError } from "./grammar_error.ts";
import { readPattern } from "./pattern.ts";

/**
 * A test for names, in time linear in their length.
 *
 * @returns what is wrong with the pattern if it cannot be read; the test is false where it is too complex to tell.
 */
export function patternTest(pattern: string): ((name: string) => boolean) | GrammarError {
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
