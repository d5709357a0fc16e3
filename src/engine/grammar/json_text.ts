/**
 * JSON's strings and white space, as expressions.
 *
 * @module
 */
import {
  ALL_CODE_POINTS,
  type CodePoints,
  encodeSet,
  hasCodePoint,
  intersect,
} from "./code_points.ts";
import { complementPoints, unite } from "./code_points.ts";
import type { Expressions } from "./expressions.ts";

/** Characters that a JSON string holds only as escapes. */
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
 * One character of a set inside a JSON string, each spelled in one way alone, as `JSON.stringify` spells it: so that
 * what is excluded is excluded in every spelling.
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

/** One character of a JSON string in any spelling. */
export function anyJsonChar(expressions: Expressions): number {
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

/** A text as spelled inside a JSON string. */
export function inside(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** A JSON string around what its characters match. */
export function quoted(expressions: Expressions, inside: number): number {
  const quote = expressions.text('"');
  return expressions.concat([quote, inside, quote]);
}

/** White space between the parts of an array or an object: bounded, so that an answer cannot stall. */
export function whitespace(expressions: Expressions): number {
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
