/**
 * The methods of str.
 *
 * @module
 */
import { chargeText, requireShort } from "../meter.ts";
import { Bytes, getTypeName, raise, toText, Tuple, Undefined, type Value } from "./values.ts";
import {
  capitalize,
  CLASSES,
  findText,
  foldCase,
  replaceText,
  splitText,
  splitTextFromEnd,
  swapCase,
  titleWords,
} from "./string_operations.ts";
import { Dict, isTrue, iterate } from "./collections.ts";
import { requireIndex } from "./numbers.ts";
import { type Implementation, type Native, native } from "./call.ts";
import { countChars, fill, sliceChars, splitLines, strip, stripEnd, stripStart } from "./text.ts";

/**
 * The text of a str.
 *
 * @throws {TemplateError} for other types.
 */
export function requireText(value: Value, what = "argument"): string {
  const text = toText(value);
  if (text !== undefined) return text;
  if (value instanceof Undefined && what !== "argument") value.fail();
  return raise("TypeError", `${what} must be str, not ${getTypeName(value)}`);
}

function optionalText(value: Value | undefined): string | undefined {
  return value === undefined || value === null ? undefined : requireText(value);
}

/** Resolves bounds as `find` does: negative ones count from the end. */
function boundsIn(text: string, start: Value | undefined, end: Value | undefined) {
  const length = countChars(text);
  const at = (bound: Value | undefined, otherwise: number) => {
    if (bound === undefined || bound === null) return otherwise;
    const index = requireIndex(bound);
    return Math.max(0, index < 0 ? index + length : index);
  };
  return { start: at(start, 0), end: Math.min(length, at(end, length)) };
}

const find = (fromEnd: boolean) => (text: string, part: Value, start?: Value, end?: Value) =>
  findText(text, requireText(part), { ...boundsIn(text, start, end), fromEnd });

const index = (fromEnd: boolean) => (text: string, part: Value, start?: Value, end?: Value) => {
  const found = find(fromEnd)(text, part, start, end);
  return found < 0 ? raise("ValueError", "substring not found") : found;
};

const meets =
  (test: (text: string, part: string) => boolean) =>
  (text: string, parts: Value, start?: Value, end?: Value) => {
    const bounds = boundsIn(text, start, end);
    if (bounds.start > bounds.end) return false;
    const part = sliceChars(text, bounds.start, bounds.end);
    const wanted = parts instanceof Tuple ? parts.items : [parts];
    return wanted.some((each) => test(part, requireText(each, "arg")));
  };

const justify =
  (share: (missing: number, width: number) => number) =>
  (text: string, width: Value, char: Value = " ") => {
    const filler = requireText(char);
    if (countChars(filler) !== 1) {
      raise("TypeError", "The fill character must be exactly one character long");
    }
    const missing = requireIndex(width) - countChars(text);
    if (missing <= 0) return text;
    const before = share(missing, requireIndex(width));
    return fill(before, filler) + text + fill(missing - before, filler);
  };

const partition = (fromEnd: boolean) => (text: string, separator: Value) => {
  const by = requireText(separator);
  if (by === "") raise("ValueError", "empty separator");
  const at = fromEnd ? text.lastIndexOf(by) : text.indexOf(by);
  if (at < 0) return new Tuple(fromEnd ? ["", "", text] : [text, "", ""]);
  return new Tuple([text.slice(0, at), by, text.slice(at + by.length)]);
};

const split = (fromEnd: boolean) => (text: string, separator: Value = null, most: Value = -1) => {
  const by = optionalText(separator);
  if (by === "") raise("ValueError", "empty separator");
  const times = requireIndex(most);
  return fromEnd ? splitTextFromEnd(text, by, times) : splitText(text, by, times);
};

/** Declares a method and its parameters besides the text. */
function method(params: string, run: Implementation): Native {
  return native(params === "" ? "_self" : `_self, ${params}`, run);
}

/** The methods by name; their first parameter is the text itself. */
export const STRING_METHODS: Readonly<Record<string, Native>> = {
  capitalize: method("", capitalize),
  casefold: method("", foldCase),
  center: method(
    "_width, _fillchar",
    justify((missing, width) => (missing >> 1) + (missing & width & 1)),
  ),
  count: method("_sub, _start?, _end?", (text: string, part: Value, start?: Value, end?: Value) => {
    const bounds = boundsIn(text, start, end);
    if (bounds.start > bounds.end) return 0;
    const searched = sliceChars(text, bounds.start, bounds.end);
    const wanted = requireText(part);
    return wanted === "" ? countChars(searched) + 1 : searched.split(wanted).length - 1;
  }),
  encode: method("encoding, errors", (text: string) => new Bytes(new TextEncoder().encode(text))),
  endswith: method("_suffix, _start?, _end?", meets((text, part) => text.endsWith(part))),
  expandtabs: method(
    "tabsize",
    (text: string, size: Value = 8) => expandTabs(text, requireIndex(size)),
  ),
  find: method("_sub, _start?, _end?", find(false)),
  index: method("_sub, _start?, _end?", index(false)),
  join: method("_iterable", (text: string, values: Value) => joinTexts(text, values)),
  ljust: method("_width, _fillchar", justify(() => 0)),
  lower: method("", (text: string) => text.toLowerCase()),
  lstrip: method("_chars?", (text: string, chars?: Value) => stripStart(text, optionalText(chars))),
  partition: method("_sep", partition(false)),
  removeprefix: method("_prefix", (text: string, prefix: Value) => {
    const start = requireText(prefix);
    return text.startsWith(start) ? text.slice(start.length) : text;
  }),
  removesuffix: method("_suffix", (text: string, suffix: Value) => {
    const end = requireText(suffix);
    return end !== "" && text.endsWith(end) ? text.slice(0, -end.length) : text;
  }),
  replace: method(
    "_old, _new, _count",
    (text: string, old: Value, by: Value, count: Value = -1) =>
      replaceText(text, requireText(old), { by: requireText(by), count: requireIndex(count) }),
  ),
  rfind: method("_sub, _start?, _end?", find(true)),
  rindex: method("_sub, _start?, _end?", index(true)),
  rjust: method("_width, _fillchar", justify((missing) => missing)),
  rpartition: method("_sep", partition(true)),
  rsplit: method("sep, maxsplit", split(true)),
  rstrip: method("_chars?", (text: string, chars?: Value) => stripEnd(text, optionalText(chars))),
  split: method("sep, maxsplit", split(false)),
  splitlines: method(
    "keepends",
    (text: string, keeps: Value = false) => splitLines(text, isTrue(keeps)),
  ),
  startswith: method("_prefix, _start?, _end?", meets((text, part) => text.startsWith(part))),
  strip: method("_chars?", (text: string, chars?: Value) => strip(text, optionalText(chars))),
  swapcase: method("", swapCase),
  title: method("", titleWords),
  translate: method("_table", (text: string, table: Value) => translate(text, table)),
  upper: method("", (text: string) => text.toUpperCase()),
  zfill: method("_width", (text: string, width: Value) => {
    const missing = fill(requireIndex(width) - countChars(text), "0");
    const sign = /^[+-]/.exec(text)?.[0] ?? "";
    return sign + missing + text.slice(sign.length);
  }),
  ...Object.fromEntries(
    Object.entries(CLASSES).map(([name, test]) => [name, method("", test)] as const),
  ),
};

function expandTabs(text: string, size: number): string {
  chargeText(text.length);
  let column = 0;
  let length = 0;
  return text.replaceAll(/[^\t\r\n]+|[\t\r\n]/g, (part) => {
    requireShort(length += part.length);
    if (part !== "\t") {
      column = /[\r\n]/.test(part) ? 0 : column + countChars(part);
      return part;
    }
    const width = size > 0 ? size - column % size : 0;
    requireShort(length += width);
    column += width;
    return fill(width);
  });
}

/** Python's `text.join(values)`. */
export function joinTexts(separator: string, values: Value): string {
  const texts: string[] = [];
  let length = 0;
  for (const value of iterate(values)) {
    const text = toText(value) ?? raise(
      "TypeError",
      `sequence item ${texts.length}: expected str instance, ${getTypeName(value)} found`,
    );
    requireShort(length += text.length + separator.length);
    texts.push(text);
  }
  chargeText(length);
  return texts.join(separator);
}

function translate(text: string, table: Value): string {
  if (!(table instanceof Dict)) return raise("TypeError", "translate() takes a mapping");
  chargeText(text.length * 8);
  let length = 0;
  return Array.from(text, (char) => {
    const mapped = table.get(char.codePointAt(0)!);
    if (mapped === undefined) return char;
    if (mapped === null) return "";
    const part = toText(mapped) ?? String.fromCodePoint(requireIndex(mapped));
    requireShort(length += part.length);
    return part;
  }).join("");
}
