/**
 * Sets of Unicode code points, and their encoding in UTF-8.
 *
 * @module
 */
import type { Expressions } from "./expressions.ts";

/** Ranges `[first, last]`, in order and not adjacent. */
export type CodePoints = readonly (readonly [number, number])[];

const LAST_CODE_POINT = 0x10ffff;
const FIRST_SURROGATE = 0xd800;
const LAST_SURROGATE = 0xdfff;
/** The last code points that UTF-8 encodes in one, two, three and four bytes. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, LAST_CODE_POINT];

/** All code points that UTF-8 can encode. */
export const ALL_CODE_POINTS: CodePoints = [
  [0, FIRST_SURROGATE - 1],
  [LAST_SURROGATE + 1, LAST_CODE_POINT],
];

/** Collects the code points of a text. */
export function toCodePoints(text: string): CodePoints {
  return unite(Array.from(text, (char) => [char.codePointAt(0)!, char.codePointAt(0)!] as const));
}

/** Sorts and merges ranges, and leaves out surrogates, which no text contains. */
export function unite(ranges: readonly (readonly [number, number])[]): CodePoints {
  const sorted = ranges.toSorted((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [first, last] of sorted) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged.flatMap(([first, last]) =>
    ALL_CODE_POINTS.flatMap(([low, high]) => {
      const from = Math.max(first, low);
      const to = Math.min(last, high);
      return from <= to ? [[from, to] as const] : [];
    })
  );
}

/** Computes the complement of a set. */
export function complementPoints(points: CodePoints): CodePoints {
  const gaps: [number, number][] = [];
  let next = 0;
  for (const [first, last] of points) {
    if (first > next) gaps.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST_CODE_POINT) gaps.push([next, LAST_CODE_POINT]);
  return unite(gaps);
}

/** Computes the intersection of two sets. */
export function intersect(a: CodePoints, b: CodePoints): CodePoints {
  return complementPoints(unite([...complementPoints(a), ...complementPoints(b)]));
}

export function hasCodePoint(points: CodePoints, point: number): boolean {
  return points.some(([first, last]) => first <= point && point <= last);
}

/** Makes an expression that matches one code point of the set, in UTF-8. */
export function encodeSet(expressions: Expressions, points: CodePoints): number {
  const alternatives: number[] = [];
  const ascii = new Uint32Array(8);
  for (const [first, last] of points) {
    let from = first;
    for (const longest of LAST_OF_LENGTH) {
      const to = Math.min(last, longest);
      if (from > to) continue;
      if (longest === LAST_OF_LENGTH[0]) {
        for (let byte = from; byte <= to; byte++) ascii[byte >>> 5]! |= 1 << (byte & 31);
      } else alternatives.push(...encodeRange(expressions, encode(from), encode(to)));
      from = to + 1;
    }
  }
  return expressions.or([expressions.set(ascii), ...alternatives]);
}

const utf8 = new TextEncoder();
const encode = (point: number) => [...utf8.encode(String.fromCodePoint(point))];

/** Makes expressions that together match the byte sequences from `low` to `high`, which have the same length. */
function encodeRange(expressions: Expressions, low: number[], high: number[]): number[] {
  const [first, ...lowRest] = low;
  const [last, ...highRest] = high;
  if (lowRest.length === 0) return [expressions.range(first!, last!)];
  const least = lowRest.map(() => 0x80);
  const most = lowRest.map(() => 0xbf);
  const after = (from: number, to: number, a: number[], b: number[]) =>
    encodeRange(expressions, a, b).map((rest) =>
      expressions.concat([expressions.range(from, to), rest])
    );
  if (first === last) return after(first!, first!, lowRest, highRest);
  const alternatives: number[] = [];
  let from = first!;
  let to = last!;
  if (lowRest.some((byte, i) => byte !== least[i])) {
    alternatives.push(...after(from, from, lowRest, most));
    from++;
  }
  if (highRest.some((byte, i) => byte !== most[i])) {
    alternatives.push(...after(to, to, least, highRest));
    to--;
  }
  if (from <= to) alternatives.push(...after(from, to, least, most));
  return alternatives;
}

const properties = new Map<string, CodePoints | undefined>();
const MAX_PROPERTIES = 32;

/** Finds all code points with a Unicode property, by testing each; `undefined` if the property does not exist. */
export function findCodePoints(name: string): CodePoints | undefined {
  if (properties.has(name)) return properties.get(name);
  let test: RegExp;
  try {
    test = new RegExp(`^\\p{${name}}$`, "u");
  } catch {
    return undefined;
  }
  const ranges: [number, number][] = [];
  for (const [first, last] of ALL_CODE_POINTS) {
    for (let point = first; point <= last; point++) {
      if (!test.test(String.fromCodePoint(point))) continue;
      const before = ranges.at(-1);
      if (before?.[1] === point - 1) before[1] = point;
      else ranges.push([point, point]);
    }
  }
  if (properties.size >= MAX_PROPERTIES) properties.clear();
  properties.set(name, ranges);
  return ranges;
}

/** The last letter in Unicode that has two cases: one of Adlam. */
const LAST_CASED = 0x1e943;
/** The capital I with a dot and the small i without a dot, which are case variants of other letters only in Turkish. */
const UNFOLDED = new Set([0x130, 0x131]);

/** For each code point with case variants, the variants and the code point itself. */
let variants: ReadonlyMap<number, readonly number[]> | undefined;

/** Adds the case variants of all letters in the set, as ECMA-262 folds cases with the flags `i` and `u`. */
export function closeCase(points: CodePoints): CodePoints {
  variants ??= findVariants();
  const others = [...variants].flatMap(([point, same]) => hasCodePoint(points, point) ? same : []);
  return unite([...points, ...others.map((point) => [point, point] as const)]);
}

function findVariants(): ReadonlyMap<number, readonly number[]> {
  const groups = new Map<number, Set<number>>();
  for (let point = 0; point <= LAST_CASED; point++) {
    if (UNFOLDED.has(point)) continue;
    const char = String.fromCodePoint(point);
    for (const other of [char.toLowerCase(), char.toUpperCase()]) {
      const code = other.codePointAt(0)!;
      if (other === char || String.fromCodePoint(code) !== other) continue;
      const group = new Set([...groups.get(point) ?? [point], ...groups.get(code) ?? [code]]);
      group.forEach((each) => groups.set(each, group));
    }
  }
  return new Map([...groups].map(([point, group]) => [point, [...group]]));
}
