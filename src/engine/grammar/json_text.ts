/**
 * JSON strings and white space, as expressions.
 *
 * @module
 */
import {
  ALL_CODE_POINTS,
  type CodePoints,
  complementPoints,
  encodeSet,
  hasCodePoint,
  intersect,
  unite,
} from "./code_points.ts";
import { EMPTY_TEXT, type Expressions } from "./expressions.ts";
import { type Phrase, sequence, terminal } from "./rules.ts";

/** Characters that JSON strings must escape. */
const ESCAPED = unite([[0, 0x1f], [0x22, 0x22], [0x5c, 0x5c]]);
const SHORT_ESCAPES: Readonly<Record<number, string>> = {
  8: "\\b",
  9: "\\t",
  10: "\\n",
  12: "\\f",
  13: "\\r",
  0x22: '\\"',
  0x5c: "\\\\",
};

/**
 * Matches one character of a set inside a JSON string, in the spelling that `JSON.stringify` uses. If other spellings
 * were allowed, an excluded character could come as an escape.
 */
export function encodeJsonSet(expressions: Expressions, points: CodePoints): number {
  const alternatives = [encodeSet(expressions, intersect(points, complementPoints(ESCAPED)))];
  for (const [first, last] of ESCAPED) {
    for (let point = first; point <= last; point++) {
      if (!hasCodePoint(points, point)) continue;
      const escape = SHORT_ESCAPES[point] ?? `\\u${point.toString(16).padStart(4, "0")}`;
      alternatives.push(expressions.text(escape));
    }
  }
  return expressions.or(alternatives);
}

/** Matches any character of a JSON string, in any spelling. */
export function matchAnyJsonChar(expressions: Expressions): number {
  const { concat, or, text, range } = {
    concat: (...parts: number[]) => expressions.concat(parts),
    or: (...parts: number[]) => expressions.or(parts),
    text: (value: string) => expressions.text(value),
    range: (first: string, last: string) =>
      expressions.range(first.charCodeAt(0), last.charCodeAt(0)),
  };
  const hex = or(range("0", "9"), range("a", "f"), range("A", "F"));
  const d = or(text("d"), text("D"));
  const highSurrogate = or(range("8", "9"), range("a", "b"), range("A", "B"));
  const lowSurrogate = or(range("c", "f"), range("C", "F"));
  const notD = or(
    range("0", "9"),
    range("a", "c"),
    range("e", "f"),
    range("A", "C"),
    range("E", "F"),
  );
  const unit = or(
    concat(notD, hex, hex, hex),
    concat(d, range("0", "7"), hex, hex),
  );
  const pair = concat(d, highSurrogate, hex, hex, text("\\u"), d, lowSurrogate, hex, hex);
  const simple = or(...Array.from('"\\/bfnrt', text));
  return or(
    encodeSet(expressions, intersect(ALL_CODE_POINTS, complementPoints(ESCAPED))),
    concat(text("\\"), or(simple, concat(text("u"), or(unit, pair)))),
  );
}

/** Spells a text as inside a JSON string. */
export function inside(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Puts quotation marks around an expression. */
export function quoted(expressions: Expressions, inside: number): number {
  const quote = expressions.text('"');
  return expressions.concat([quote, inside, quote]);
}

/** White space between the parts of an array or object. It is bounded, so that an answer cannot stall. */
function whitespace(expressions: Expressions): number {
  const indent = expressions.repeat(
    expressions.or([expressions.text(" "), expressions.text("\t")]),
    0,
    20,
  );
  return expressions.repeat(
    expressions.or([expressions.text(" "), expressions.concat([expressions.text("\n"), indent])]),
    0,
    1,
  );
}

/** The punctuation of JSON, with the white space that may surround it. */
export class JsonPhrases {
  readonly comma: Phrase;
  readonly colon: Phrase;
  readonly openArray: Phrase;
  readonly closeArray: Phrase;
  readonly openObject: Phrase;
  readonly closeObject: Phrase;
  readonly #expressions: Expressions;

  constructor(expressions: Expressions) {
    this.#expressions = expressions;
    const space = whitespace(expressions);
    const behind = (mark: string) => terminal(expressions.concat([expressions.text(mark), space]));
    const before = (mark: string) => terminal(expressions.concat([space, expressions.text(mark)]));
    this.comma = behind(",");
    this.colon = behind(":");
    this.openArray = behind("[");
    this.closeArray = before("]");
    this.openObject = behind("{");
    this.closeObject = before("}");
  }

  /** Matches exactly this text. */
  text(text: string): Phrase {
    return terminal(this.#expressions.text(text));
  }

  /** Matches a JSON value, with its members in order. */
  value(value: unknown): Phrase {
    if (typeof value !== "object" || value === null) return this.text(JSON.stringify(value));
    if (Array.isArray(value)) {
      const items = this.#separated(value.map((each) => [this.value(each)]));
      return sequence(this.openArray, ...items, this.closeArray);
    }
    const members = this.#separated(
      Object.entries(value).map(([name, each]) => [
        this.text(JSON.stringify(name)),
        this.colon,
        this.value(each),
      ]),
    );
    return sequence(this.openObject, ...members, this.closeObject);
  }

  #separated(parts: readonly Phrase[][]): Phrase[] {
    return parts.flatMap((each, i) => i === 0 ? each : [this.comma, ...each]);
  }
}

/** Matches one of these texts, in UTF-8, sharing common prefixes. */
export function matchAnyText(expressions: Expressions, texts: Iterable<string>): number {
  const utf8 = new TextEncoder();
  // Texts are not always sorted by their bytes, so equal first bytes may not be adjacent. That only makes the result
  // larger.
  const sorted = [...new Set(texts)].sort().map((text) => utf8.encode(text));
  return branch(expressions, sorted, 0);
}

/** Matches sorted texts from byte `at` on. */
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
      const end = at + countShared(same, at);
      const shared = expressions.bytes(same[0]!.subarray(at, end));
      alternatives.push(expressions.concat([shared, branch(expressions, same, end)]));
    }
    from = to;
  }
  return expressions.or(alternatives);
}

/** Length of the common prefix of all texts, from byte `at` on. */
function countShared(texts: readonly Uint8Array[], at: number): number {
  const [first, last] = [texts[0]!, texts.at(-1)!];
  let end = at;
  while (end < first.length && texts.every((text) => text[end] === first[end])) end++;
  return Math.min(end, first.length, last.length) - at;
}
