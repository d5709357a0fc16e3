/**
 * Python's `str()`, `repr()` and `pprint.pformat()`, and text as it is printed: escaped for HTML within
 * `{% autoescape true %}`.
 *
 * @module
 */
import { charge, chargeText, descend, requireShort } from "../meter.ts";
import { Dict, DictView } from "./collections.ts";
import { formatFloat, formatInt } from "./numbers.ts";
import {
  Bytes,
  Callable,
  Float,
  getTypeName,
  isRaised,
  Markup,
  Namespace,
  PyObject,
  Range,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";
import { countChars, escapeHtml, splitLines } from "./text.ts";
import { sortBy } from "./compare.ts";

/** Python's `str(value)`. */
export function str(value: Value): string {
  if (typeof value === "string") return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return "";
  return repr(value);
}

/** Python's `repr(value)`. */
export function repr(value: Value): string {
  if (typeof value === "string") return reprText(value);
  if (typeof value === "number" || typeof value === "bigint") return formatInt(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value === null) return "None";
  if (value instanceof Float) return formatFloat(value.value);
  const writer = new Writer();
  descend(() => writer.write(value));
  return writer.finish();
}

const QUOTED = /[\\\n\r\t]|[^ -~]/gu;
const UNPRINTABLE = /[\p{C}\p{Z}]/u;
const SHORT = new Map([["\\", "\\\\"], ["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"]]);

/** Writes a string as a Python literal. */
function reprText(text: string): string {
  chargeText(text.length);
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll(QUOTED, (char) => SHORT.get(char) ?? escapeChar(char));
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

function escapeChar(char: string): string {
  if (!UNPRINTABLE.test(char)) return char;
  return escapeCode(char.codePointAt(0)!);
}

/** Writes a code point as an escape sequence. */
export function escapeCode(code: number): string {
  const [letter, width] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.toString(16).padStart(width, "0")}`;
}

/** Collects the text of nested values, within the meter's limits. */
class Writer {
  readonly #parts: string[] = [];
  readonly #open = new Set<Value>();
  #length = 0;

  finish(): string {
    return this.#parts.join("");
  }

  #push(part: string): void {
    charge(4);
    requireShort(this.#length += part.length);
    this.#parts.push(part);
  }

  write(value: Value): void {
    if (!(value instanceof PyObject || Array.isArray(value)) || value instanceof Float) {
      this.#push(repr(value));
    } else if (this.#open.has(value)) {
      this.#push(Array.isArray(value) ? "[...]" : "{...}");
    } else {
      this.#open.add(value);
      this.#writeObject(value);
      this.#open.delete(value);
    }
  }

  #writeObject(value: PyObject | Value[]): void {
    if (Array.isArray(value)) this.#writeItems("[", value, "]");
    else if (value instanceof Tuple) {
      this.#writeItems("(", value.items, value.items.length === 1 ? ",)" : ")");
    } else if (value instanceof Dict) this.#writeEntries("{", value.entries(), "}");
    else if (value instanceof DictView) {
      this.#push(value.typeName);
      this.#writeItems("([", [...value.iterate()], "])");
    } else if (value instanceof Namespace) {
      this.#writeEntries("<Namespace {", value.values.entries(), "}>");
    } else if (value instanceof Markup) this.#push(`Markup(${reprText(value.text)})`);
    else this.#push(describe(value));
  }

  #writeItems(open: string, items: readonly Value[], close: string): void {
    this.#push(open);
    items.forEach((item, index) => {
      if (index > 0) this.#push(", ");
      descend(() => this.write(item));
    });
    this.#push(close);
  }

  #writeEntries(open: string, entries: Iterable<readonly [Value, Value]>, close: string): void {
    let separator = open;
    for (const [key, value] of entries) {
      this.#push(separator);
      separator = ", ";
      this.write(key);
      this.#push(": ");
      descend(() => this.write(value));
    }
    if (separator === open) this.#push(open);
    this.#push(close);
  }
}

function describe(value: PyObject): string {
  const own = value.describe();
  if (own !== undefined) return own;
  if (value instanceof Range) {
    const { start, stop, step } = value;
    return `range(${start}, ${stop}${step === 1 ? "" : `, ${step}`})`;
  }
  if (value instanceof Bytes) return reprBytes(value.bytes);
  if (value instanceof Callable) {
    return value.typeName === "Macro"
      ? `<Macro '${value.name}'>`
      : `<${value.typeName} ${value.name}>`;
  }
  if (value instanceof Undefined) return "Undefined";
  return `<${value.typeName} object>`;
}

function reprBytes(bytes: Uint8Array): string {
  const text = Array.from(bytes, (byte) => {
    const char = String.fromCharCode(byte);
    return SHORT.get(char) ?? (byte < 0x20 || byte > 0x7e ? escapeCode(byte) : char);
  }).join("");
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  return `b${quote}${quote === "'" ? text.replaceAll("'", "\\'") : text}${quote}`;
}

/** Whether printed text is escaped. Rendering is synchronous, so one setting serves the whole thread. */
let isOn = false;

export function isAutoescaping(): boolean {
  return isOn;
}

/**
 * Switches escaping on or off.
 *
 * @returns the previous setting.
 */
export function setAutoescape(isWanted: boolean): boolean {
  const before = isOn;
  isOn = isWanted;
  return before;
}

/** A value's text, escaped for HTML. */
export function escape(value: Value): string {
  return value instanceof Markup ? value.text : escapeHtml(str(value));
}

/** Marks a text as HTML if escaping is on. */
export function markIfEscaping(text: string): Value {
  return isOn ? new Markup(text) : text;
}

/** A value's text as it is printed. */
export function toPrinted(value: Value): string {
  return isOn ? escape(value) : str(value);
}

const WIDTH = 80;

/** Python's `pprint.pformat(value)`: lines of at most 80 characters where possible, with sorted keys. */
export function prettyPrint(value: Value): string {
  return format(value, { indent: 0, allowance: 0, level: 0 });
}

/** The position at which a value is written. */
interface Position {
  /** The column at which the value begins. */
  readonly indent: number;
  /** Number of characters that will follow the value on its last line. */
  readonly allowance: number;
  /** How deeply the value is nested. */
  readonly level: number;
}

function format(value: Value, position: Position): string {
  const text = repr(sortKeys(value));
  charge(1);
  if (countChars(text) <= WIDTH - position.indent - position.allowance) return text;
  const inner = { ...position, level: position.level + 1 };
  const written = descend(() => formatLong(value, inner));
  requireShort(written?.length ?? 0);
  return written ?? text;
}

function formatLong(value: Value, position: Position): string | undefined {
  if (value instanceof Dict) return formatDict(value, position);
  if (Array.isArray(value)) return formatItems("[", value, "]", position);
  if (value instanceof Tuple) {
    return formatItems("(", value.items, value.items.length === 1 ? ",)" : ")", position);
  }
  return typeof value === "string" ? formatText(value, position) : undefined;
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

function formatDict(dict: Dict, { indent, allowance, level }: Position): string {
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
  { indent, allowance, level }: Position,
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

function formatText(text: string, { level, ...position }: Position): string {
  const isTop = level === 1;
  const indent = position.indent + Number(isTop);
  const allowance = position.allowance + Number(isTop);
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
