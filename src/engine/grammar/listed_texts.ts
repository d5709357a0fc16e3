/**
 * Expressions for lists of texts.
 *
 * @module
 */
import { EMPTY_TEXT, type Expressions } from "./expressions.ts";

/** One of these texts, in UTF-8, with common prefixes shared. */
export function anyText(expressions: Expressions, texts: Iterable<string>): number {
  const utf8 = new TextEncoder();
  // The order of texts is not always that of their bytes, so equal first bytes may not be adjacent; the result is
  // only larger.
  const sorted = [...new Set(texts)].sort().map((text) => utf8.encode(text));
  return branch(expressions, sorted, 0);
}

/** Sorted texts from byte `at` on. */
function branch(expressions: Expressions, texts: readonly Uint8Array[], at: number): number {
  if (texts.length === 1) return expressions.bytes(texts[0]!.subarray(at));
  const alternatives: number[] = [];
  for (let from = 0; from < texts.length;) {
    const byte = texts[from]![at];
    let to = from + 1;
    while (to < texts.length && texts[to]![at] === byte) to++;
    if (byte === undefined) alternatives.push(EMPTY_TEXT);
    else {
      const same = texts.slice(from, to);
      const end = at + sharedLength(same, at);
      const shared = expressions.bytes(same[0]!.subarray(at, end));
      alternatives.push(expressions.concat([shared, branch(expressions, same, end)]));
    }
    from = to;
  }
  return expressions.or(alternatives);
}

/** Length of the common prefix of all texts from byte `at` on. */
function sharedLength(texts: readonly Uint8Array[], at: number): number {
  const [first, last] = [texts[0]!, texts.at(-1)!];
  let end = at;
  while (end < first.length && texts.every((text) => text[end] === first[end])) end++;
  return Math.min(end, first.length, last.length) - at;
}
