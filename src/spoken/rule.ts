/**
 * Rewriting rules that turn text into what is read aloud.
 *
 * @module
 */

/** A pattern and its replacement, a function of the match and its groups. */
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

/** Applied in order. */
export type Replacements = readonly (readonly [pattern: RegExp, replacement: string])[];

/** Makes each replacement in turn. */
export function replaceAll(text: string, replacements: Replacements): string {
  return replacements.reduce(
    (now, [pattern, replacement]) => now.replace(pattern, replacement),
    text,
  );
}
