import type { ConfigReader } from "./config_reader.ts";

/** What happens to the matches at which a text is split. */
export type SplitBehavior =
  | "Removed"
  | "Isolated"
  | "MergedWithPrevious"
  | "MergedWithNext"
  | "Contiguous";

const BEHAVIORS: readonly SplitBehavior[] = [
  "Removed",
  "Isolated",
  "MergedWithPrevious",
  "MergedWithNext",
  "Contiguous",
];

/** @throws {StartupError} for an unknown behavior. */
export function readBehavior(reader: ConfigReader, fallback?: SplitBehavior): SplitBehavior {
  const name = reader.string("behavior", fallback);
  const found = BEHAVIORS.find((known) => known.toLowerCase() === name.toLowerCase());
  if (found === undefined) throw reader.unknownType();
  return found;
}

/** A part of a text. */
interface Range {
  readonly start: number;
  end: number;
  readonly isMatch: boolean;
}

/**
 * Splits a text at matches.
 *
 * @param matches start and end of each match, alternating, from left to right.
 * @param options.isInverted whether to split at the text between the matches instead.
 * @returns the segments, none of them empty.
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * assert.deepEqual(splitAt("a-b", [1, 2], { behavior: "Isolated" }), ["a", "-", "b"]);
 * assert.deepEqual(splitAt("a-b", [1, 2], { behavior: "MergedWithNext" }), ["a", "-b"]);
 * assert.deepEqual(splitAt("a-b", [1, 2], { behavior: "Removed", isInverted: true }), ["-"]);
 * ```
 */
export function splitAt(
  text: string,
  matches: readonly number[],
  { behavior, isInverted = false }: {
    readonly behavior: SplitBehavior;
    readonly isInverted?: boolean;
  },
): string[] {
  const segments: string[] = [];
  const ranges = merge(toRanges(text, matches, isInverted), behavior);
  for (const { start, end, isMatch } of ranges) {
    if (end > start && !(isMatch && behavior === "Removed")) segments.push(text.slice(start, end));
  }
  return segments;
}

function toRanges(text: string, matches: readonly number[], isInverted: boolean): Range[] {
  const ranges: Range[] = [];
  let last = 0;
  for (let i = 0; i < matches.length; i += 2) {
    const start = matches[i]!;
    const end = matches[i + 1]!;
    if (start > last) ranges.push({ start: last, end: start, isMatch: isInverted });
    ranges.push({ start, end, isMatch: !isInverted });
    last = end;
  }
  if (last < text.length) ranges.push({ start: last, end: text.length, isMatch: isInverted });
  return ranges;
}

function merge(ranges: Range[], behavior: SplitBehavior): readonly Range[] {
  switch (behavior) {
    case "Removed":
    case "Isolated":
      return ranges;
    case "Contiguous":
      return join(ranges, (before, { isMatch }) => before.isMatch === isMatch);
    case "MergedWithPrevious":
      return join(ranges, (before, { isMatch }) => isMatch && !before.isMatch);
    case "MergedWithNext":
      return mergeWithNext(ranges);
  }
}

/** Joins neighbours; `joins` decides by a range and the one right before it. */
function join(ranges: Range[], joins: (before: Range, range: Range) => boolean): Range[] {
  const joined: Range[] = [];
  ranges.forEach((range, index) => {
    const before = ranges[index - 1];
    if (before !== undefined && joins(before, range)) joined.at(-1)!.end = range.end;
    else joined.push({ ...range });
  });
  return joined;
}

function mergeWithNext(ranges: Range[]): Range[] {
  const merged: Range[] = [];
  for (let i = ranges.length - 1; i >= 0; i--) {
    const range = ranges[i]!;
    const next = ranges[i + 1];
    if (next !== undefined && range.isMatch && !next.isMatch) {
      merged.push({ ...merged.pop()!, start: range.start });
    } else merged.push({ ...range });
  }
  return merged.reverse();
}
