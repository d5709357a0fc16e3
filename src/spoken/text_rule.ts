/**
 * Rules that look at what stands before a match, with the language's words for numbers.
 *
 * @module
 */
import type { MatchContext, Say } from "./language.ts";

/** The longest stretch before a number that tells its case. */
const BEFORE_CHARS = 24;

/** Finds something in a text; `say` takes the groups, and returns `undefined` to leave the text as it is. */
export interface TextRule {
  readonly pattern: RegExp;
  readonly say: (
    groups: readonly (string | undefined)[],
    context: MatchContext,
  ) => string | undefined;
}

/** Applies a rule wherever it matches. */
export function applyRule(text: string, { pattern, say: sayFound }: TextRule, say: Say): string {
  return text.replace(pattern, (match, ...rest) => {
    const at = rest.findIndex((each) => typeof each === "number");
    const offset = rest[at] as number;
    const before = text.slice(Math.max(0, offset - BEFORE_CHARS), offset).toLowerCase();
    return sayFound(rest.slice(0, at), { say, before }) ?? match;
  });
}

/** A pattern of any of the texts, the longest first. */
export const anyOf = (texts: Iterable<string>): string =>
  [...texts].sort((a, b) => b.length - a.length)
    .map((text) => text.replaceAll(/[.$+*?^|()[\]{}\\]/g, "\\$&")).join("|");
