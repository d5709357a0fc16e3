/**
 * Parses sets of characters: bracket expressions and properties.
 *
 * @module
 */
import { type CharTest, complement, findPropertyTest, SHORTHANDS } from "./char_set.ts";
import type { PatternReader } from "./pattern_reader.ts";

const MAX_DEPTH = 64;

/** Parses `[...]`, with nested sets and intersections. */
export function parseBracket(reader: PatternReader, depth = 0): CharTest {
  if (depth > MAX_DEPTH) throw reader.error("brackets that are too deep");
  reader.next();
  const isNegative = reader.take("^");
  const intersected: CharTest[] = [];
  let members = new Members();
  for (let isFirst = true;; isFirst = false) {
    if (reader.isAtEnd) throw reader.error("a [ that is not closed");
    if (!isFirst && reader.take("]")) break;
    if (reader.take("&&")) {
      intersected.push(members.test);
      members = new Members();
    } else parseMember(reader, members, depth);
  }
  const all = [...intersected, members.test];
  const test: CharTest = all.length === 1
    ? all[0]!
    : (codePoint) => all.every((has) => has(codePoint));
  return isNegative ? complement(test) : test;
}

/** Collects the members of one bracket expression. */
class Members {
  readonly #ranges: (readonly [first: number, last: number])[] = [];
  readonly #sets: CharTest[] = [];

  addRange(first: number, last: number): void {
    this.#ranges.push([first, last]);
  }

  addSet(test: CharTest): void {
    this.#sets.push(test);
  }

  readonly test: CharTest = (codePoint) =>
    this.#ranges.some(([first, last]) => codePoint >= first && codePoint <= last) ||
    this.#sets.some((has) => has(codePoint));
}

function parseMember(reader: PatternReader, members: Members, depth: number): void {
  const posix = reader.takeMatch(/\[:(\^?)(\w+):\]/y);
  if (posix !== undefined) {
    const test = findPropertyTest(posix[2]!);
    if (test === undefined) throw reader.error(`an unknown class ${posix[0]}`);
    return members.addSet(posix[1] === "^" ? complement(test) : test);
  }
  if (reader.sees("[")) return members.addSet(parseBracket(reader, depth + 1));
  const first = parseClassChar(reader);
  if (typeof first !== "number") return members.addSet(first);
  if (!reader.takeMatch(/-(?!\]|&&)/y)) return members.addRange(first, first);
  if (reader.sees("[")) {
    members.addRange(first, first);
    return members.addRange(0x2d, 0x2d);
  }
  const last = parseClassChar(reader);
  if (typeof last !== "number") {
    members.addRange(first, first);
    members.addRange(0x2d, 0x2d);
    return members.addSet(last);
  }
  if (last < first) throw reader.error("a range whose ends are the wrong way round");
  members.addRange(first, last);
}

function parseClassChar(reader: PatternReader): number | CharTest {
  if (!reader.take("\\")) return reader.next().codePointAt(0)!;
  const property = parseProperty(reader);
  if (property !== undefined) return property;
  const letter = reader.peek();
  const shorthand = SHORTHANDS[letter.toLowerCase()];
  if (shorthand !== undefined) {
    reader.next();
    return letter < "a" ? complement(shorthand) : shorthand;
  }
  if (reader.take("b")) return 0x08;
  return reader.escapedChar().codePointAt(0)!;
}

/** Parses `p{...}` or `P{...}`, after the backslash. */
export function parseProperty(reader: PatternReader): CharTest | undefined {
  const found = reader.takeMatch(/([pP])(?:\{(\^?)([^{}^]+)\}|([A-Z]))/y);
  if (found === undefined) return undefined;
  const [text, letter, caret, name, short] = found;
  const test = findPropertyTest(name ?? short!);
  if (test === undefined) throw reader.error(`an unknown property \\${text}`);
  return (letter === "P") !== (caret === "^") ? complement(test) : test;
}
