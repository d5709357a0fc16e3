/**
 * Python's `pprint.pformat`.
 *
 * @module
 */
import { charge, descend, requireShort } from "../meter.ts";
import { sortBy } from "../python/compare.ts";
import { Dict } from "../python/dict.ts";
import { repr } from "../python/repr.ts";
import { countChars, splitLines } from "../python/text.ts";
import { getTypeName, isRaised, Tuple, type Value } from "../python/values.ts";

const WIDTH = 80;

/** Writes a value in lines of at most 80 characters, with sorted keys. */
export function prettyPrint(value: Value): string {
  return format(value, { indent: 0, allowance: 0, level: 0 });
}

interface Room {
  /** The column at which the value begins. */
  readonly indent: number;
  /** Number of characters that will follow the value on its last line. */
  readonly allowance: number;
  readonly level: number;
}

function format(value: Value, room: Room): string {
  const text = repr(sortKeys(value));
  charge(1);
  if (countChars(text) <= WIDTH - room.indent - room.allowance) return text;
  const inner = { ...room, level: room.level + 1 };
  const written = descend(() => formatLong(value, inner));
  requireShort(written?.length ?? 0);
  return written ?? text;
}

function formatLong(value: Value, room: Room): string | undefined {
  if (value instanceof Dict) return formatDict(value, room);
  if (Array.isArray(value)) return formatItems("[", value, "]", room);
  if (value instanceof Tuple) {
    return formatItems("(", value.items, value.items.length === 1 ? ",)" : ")", room);
  }
  return typeof value === "string" ? formatText(value, room) : undefined;
}

/** The value with the keys of its dicts sorted. */
function sortKeys(value: Value): Value {
  charge(8);
  if (Array.isArray(value)) return descend(() => value.map(sortKeys));
  if (value instanceof Tuple) return descend(() => new Tuple(value.items.map(sortKeys)));
  if (!(value instanceof Dict)) return value;
  return descend(() =>
    new Dict(sortEntries(value).map(([key, each]) => [key, sortKeys(each)] as const))
  );
}

function sortEntries(dict: Dict): (readonly [Value, Value])[] {
  const entries = [...dict.entries()];
  try {
    return sortBy(entries, ([key]) => key);
  } catch (error) {
    if (!isRaised(error, "TypeError")) throw error;
    return sortBy(entries, ([key]) => `${getTypeName(key)} ${repr(key)}`);
  }
}

function formatDict(dict: Dict, { indent, allowance, level }: Room): string {
  const entries = sortEntries(dict);
  const lines = entries.map(([key, value], index) => {
    const name = repr(key);
    const isLast = index === entries.length - 1;
    return `${name}: ` + format(value, {
      indent: indent + 1 + countChars(name) + 2,
      allowance: isLast ? allowance + 1 : 1,
      level,
    });
  });
  return `{${lines.join(`,\n${" ".repeat(indent + 1)}`)}}`;
}

function formatItems(
  open: string,
  items: readonly Value[],
  close: string,
  { indent, allowance, level }: Room,
): string {
  const lines = items.map((item, index) =>
    format(item, {
      indent: indent + 1,
      allowance: index === items.length - 1 ? allowance + close.length : 1,
      level,
    })
  );
  return open + lines.join(`,\n${" ".repeat(indent + 1)}`) + close;
}

function formatText(text: string, { level, ...room }: Room): string {
  const isTop = level === 1;
  const indent = room.indent + Number(isTop);
  const allowance = room.allowance + Number(isTop);
  const lines = splitLines(text, true);
  const chunks = lines.flatMap((line, index) => {
    const isLast = index === lines.length - 1;
    const width = WIDTH - indent;
    const whole = repr(line);
    if (countChars(whole) <= width - (isLast ? allowance : 0)) return [whole];
    return wrapWords(line, width, isLast ? allowance : 0);
  });
  const written = chunks.join(`\n${" ".repeat(indent)}`);
  return isTop && chunks.length > 1 ? `(${written})` : written;
}

function wrapWords(line: string, width: number, allowance: number): string[] {
  const words = line.match(/\S*\s*/g)!.filter((word) => word !== "");
  const chunks: string[] = [];
  let current = "";
  words.forEach((word, index) => {
    const most = index === words.length - 1 ? width - allowance : width;
    if (countChars(repr(current + word)) <= most) {
      current += word;
      return;
    }
    if (current !== "") chunks.push(repr(current));
    current = word;
  });
  if (current !== "") chunks.push(repr(current));
  return chunks;
}
