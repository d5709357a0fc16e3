/**
 * The filters for text.
 *
 * @module
 */
import { charge, chargeText } from "../meter.ts";
import { applyBinary } from "../python/arithmetic.ts";
import { getAttribute } from "../python/attributes.ts";
import { callValue, type Native, native } from "../python/call.ts";
import { isTrue, requireLength, toList } from "../python/collections.ts";
import { parseJson, writeJson } from "../python/json.ts";
import { requireIndex } from "../python/numbers.ts";
import { escape, isAutoescaping, prettyPrint, str } from "../python/repr.ts";
import { requireText } from "../python/string_methods.ts";
import { countChars, fill, sliceChars, splitLines } from "../python/text.ts";
import { Markup, NO_NAMED, raise, toText, type Value } from "../python/values.ts";

/** Makes a filter that calls a method of the value's text. */
const method = (name: string): Native =>
  native(
    "s",
    (value: Value) =>
      callValue(getAttribute(softText(value), name), { positional: [], named: NO_NAMED }),
  );

/** The value as a string. Markup stays Markup. */
function softText(value: Value): string | Markup {
  return value instanceof Markup ? value : str(value);
}

export const TEXT_FILTERS: Readonly<Record<string, Native>> = {
  capitalize: method("capitalize"),
  center: native(
    "value, width",
    (value: Value, width: Value = 80) =>
      callValue(getAttribute(softText(value), "center"), { positional: [width], named: NO_NAMED }),
  ),
  fromjson: native("value", (value: Value) => parseJson(requireText(value))),
  indent: native(
    "s, width, first, blank",
    (value: Value, width: Value = 4, first: Value = false, blank: Value = false) =>
      indent(value, { width, first: isTrue(first), blank: isTrue(blank) }),
  ),
  lower: method("lower"),
  pprint: native("value", prettyPrint),
  replace: native("s, old, new, count", replaceAll),
  safe: native("value", (value: Value) => new Markup(str(value))),
  string: native("object", softText),
  title: native("s", (value: Value) => toTitle(softText(value))),
  tojson: native("x, ensure_ascii, indent, separators, sort_keys", toJson),
  trim: native(
    "value, chars",
    (value: Value, chars: Value = null) =>
      callValue(getAttribute(softText(value), "strip"), { positional: [chars], named: NO_NAMED }),
  ),
  truncate: native(
    "s, length, killwords, end, leeway",
    (
      value: Value,
      length: Value = 255,
      kills: Value = false,
      end: Value = "...",
      leeway: Value = null,
    ) =>
      truncate(value, {
        length: requireIndex(length),
        killsWords: isTrue(kills),
        end: requireText(end),
        leeway: leeway === null ? 5 : requireIndex(leeway),
      }),
  ),
  upper: method("upper"),
  wordcount: native("s", (value: Value) => {
    chargeText(str(value).length);
    return str(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0;
  }),
  wordwrap: native(
    "s, width, break_long_words, wrapstring, break_on_hyphens",
    (
      value: Value,
      width: Value = 79,
      breaks: Value = true,
      by: Value = null,
      hyphens: Value = true,
    ) => {
      const separator = by === null ? "\n" : requireText(by);
      const options = {
        width: requireIndex(width),
        breaksWords: isTrue(breaks),
        breaksAtHyphens: isTrue(hyphens),
      };
      const text = requireText(value);
      const lines = splitLines(text).map((line) => wrapLine(line, options).join(separator));
      return lines.join(separator);
    },
  ),
};

function toJson(
  value: Value,
  isAscii: Value = false,
  indent: Value = null,
  separators: Value = null,
  sortsKeys: Value = false,
): Value {
  const given = separators === null
    ? undefined
    : toList(separators).map((each) => requireText(each));
  if (given !== undefined && given.length !== 2) raise("ValueError", "separators must be a pair");
  const level = indent === null ? undefined : toText(indent) ?? fill(requireIndex(indent));
  return writeJson(value, {
    isAscii: isTrue(isAscii),
    indent: level,
    itemSeparator: given?.[0] ?? (level === undefined ? ", " : ","),
    keySeparator: given?.[1] ?? ": ",
    sortsKeys: isTrue(sortsKeys),
  });
}

interface IndentOptions {
  readonly width: Value;
  readonly first: boolean;
  readonly blank: boolean;
}

function indent(value: Value, { width, first, blank }: IndentOptions): Value {
  const space = toText(width) ?? fill(requireIndex(width));
  const [start, ...lines] = splitLines(`${requireText(value)}\n`);
  const parts = [
    (first ? space : "") + (start ?? ""),
    ...lines.map((line) => line !== "" || blank ? space + line : line),
  ];
  let text = "";
  parts.forEach((part, index) => {
    text = applyBinary("+", text, index === 0 ? part : `\n${part}`) as string;
  });
  return value instanceof Markup ? new Markup(text) : text;
}

function replaceAll(value: Value, old: Value, by: Value, count: Value = null): Value {
  const times = count === null ? -1 : count;
  const replace = (text: Value, ...args: Value[]) =>
    callValue(getAttribute(text, "replace"), { positional: [...args, times], named: NO_NAMED });
  if (!isAutoescaping()) return replace(str(value), str(old), str(by));
  const isHtml = old instanceof Markup || (by instanceof Markup && !(value instanceof Markup));
  return replace(isHtml ? new Markup(escape(value)) : softText(value), softText(old), softText(by));
}

function toTitle(value: string | Markup): Value {
  const text = str(value);
  chargeText(text.length);
  const parts = text.split(/([-\s({[<]+)/u);
  const title = parts.map((part) => {
    const [first = ""] = part;
    return first.toUpperCase() + part.slice(first.length).toLowerCase();
  }).join("");
  return title;
}

interface TruncateOptions {
  readonly length: number;
  readonly killsWords: boolean;
  readonly end: string;
  readonly leeway: number;
}

/** Shortens a text. A value of any type is returned unchanged if its length is at most `length` + `leeway`. */
function truncate(value: Value, { length, killsWords, end, leeway }: TruncateOptions): Value {
  const kept = length - countChars(end);
  if (kept < 0) raise("AssertionError", `expected length >= ${countChars(end)}, got ${length}`);
  if (leeway < 0) raise("AssertionError", `expected leeway >= 0, got ${leeway}`);
  if (requireLength(value) <= length + leeway) return value;
  const cut = sliceChars(requireText(value), 0, kept);
  const space = cut.lastIndexOf(" ");
  return (killsWords || space < 0 ? cut : cut.slice(0, space)) + end;
}

interface WrapOptions {
  readonly width: number;
  readonly breaksWords: boolean;
  readonly breaksAtHyphens: boolean;
}

const SPACE = "[\\t\\n\\v\\f\\r ]";
const NOT_SPACE = "[^\\t\\n\\v\\f\\r ]";
const LETTER = "[\\p{L}\\p{N}_](?<!\\p{Nd})";
const CHUNK = new RegExp(
  `(${SPACE}+|(?<=[\\p{L}\\p{N}_!"'&.,?])-{2,}(?=[\\p{L}\\p{N}_])|${NOT_SPACE}+?(?:` +
    `-(?:(?<=(?:${LETTER}){2}-)|(?<=${LETTER}-${LETTER}-))(?=${LETTER}-?${LETTER})|` +
    `(?=${SPACE}|$)|(?<=[\\p{L}\\p{N}_!"'&.,?])(?=-{2,}[\\p{L}\\p{N}_])))`,
  "u",
);
const SIMPLE = new RegExp(`(${SPACE}+)`);

/**
 * Wraps a line.
 *
 * @returns its parts.
 * @throws {TemplateError} when the width is not positive.
 */
function wrapLine(line: string, options: WrapOptions): string[] {
  const { width } = options;
  chargeText(line.length * 16);
  if (width <= 0) raise("ValueError", `invalid width ${width} (must be > 0)`);
  const chunks = line.split(options.breaksAtHyphens ? CHUNK : SIMPLE).filter((each) => each !== "")
    .reverse();
  const lines: string[] = [];
  while (chunks.length > 0) {
    charge(1);
    const current: string[] = [];
    let length = 0;
    if (lines.length > 0 && isBlank(chunks.at(-1)!)) chunks.pop();
    while (chunks.length > 0 && length + countChars(chunks.at(-1)!) <= width) {
      length += countChars(chunks.at(-1)!);
      current.push(chunks.pop()!);
    }
    if (chunks.length > 0 && countChars(chunks.at(-1)!) > width) {
      breakWord(chunks, current, width - length, options);
    }
    if (current.length > 0 && isBlank(current.at(-1)!)) current.pop();
    if (current.length > 0) lines.push(current.join(""));
  }
  return lines;
}

function isBlank(chunk: string): boolean {
  return chunk.trim() === "";
}

/**
 * Moves a word that is longer than a line: as much of it as fits onto the current line or, if words must not be broken,
 * all of it onto an empty line.
 */
function breakWord(
  chunks: string[],
  current: string[],
  space: number,
  { breaksWords, breaksAtHyphens }: WrapOptions,
): void {
  if (!breaksWords) {
    if (current.length === 0) current.push(chunks.pop()!);
    return;
  }
  const word = chunks.pop()!;
  let end = space;
  if (breaksAtHyphens && countChars(word) > space) {
    const hyphen = sliceChars(word, 0, space).lastIndexOf("-");
    if (hyphen > 0 && /[^-]/.test(word.slice(0, hyphen))) end = hyphen + 1;
  }
  current.push(sliceChars(word, 0, end));
  chunks.push(sliceChars(word, end, countChars(word)));
}
