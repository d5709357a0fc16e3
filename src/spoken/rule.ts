/**
 * Rules that make of a text one that can be read aloud as it stands.
 *
 * @module
 */

/** A pattern, and what is said in place of a match: given the match, then its groups. */
export type Rule = readonly [
  pattern: RegExp,
  say: (match: string, ...groups: (string | undefined)[]) => string,
];

/** Applies rules one after another. */
export function applyRules(text: string, rules: readonly Rule[]): string {
  return rules.reduce(
    (current, [pattern, say]) =>
      current.replace(pattern, (match, ...rest) => {
        // After the groups come the offset and the text.
        const groups = rest.slice(0, rest.findIndex((each) => typeof each === "number"));
        return say(match, ...groups);
      }),
    text,
  );
}
