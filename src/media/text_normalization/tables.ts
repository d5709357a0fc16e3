/**
 * Tables of words, as text, and lists of replacements.
 *
 * @module
 */

/** Reads `key=value; key=value`. A key is at least a character long, so that `==equals` has the key `=`. */
export function parseTable(text: string): ReadonlyMap<string, string> {
  const entries = text.trim().split(/;\s*/).filter((entry) => entry !== "");
  return new Map(entries.map((entry) => {
    const at = entry.indexOf("=", 1);
    return [entry.slice(0, at), entry.slice(at + 1)] as const;
  }));
}

/** A pattern that matches any of the texts, the longest first. */
export function matchAny(texts: Iterable<string>): string {
  return [...texts].sort((a, b) => b.length - a.length)
    .map((text) => text.replaceAll(/[.$+*?^|()[\]{}\\/]/g, "\\$&")).join("|");
}

/** Applied in order. */
export type Replacements = readonly (readonly [pattern: RegExp, replacement: string])[];

/** Makes each replacement in turn. */
export function replaceAll(text: string, replacements: Replacements = []): string {
  return replacements.reduce(
    (now, [pattern, replacement]) => now.replace(pattern, replacement),
    text,
  );
}
