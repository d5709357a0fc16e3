/**
 * Python's `str()` and `repr()`, and text as it is printed: escaped for HTML within `{% autoescape true %}`.
 *
 * @module
 */
import { charge, chargeText, descend, requireShort } from "../meter.ts";
import { Dict, DictView } from "./dict.ts";
import { formatFloat, formatInt } from "./numbers.ts";
import {
  Bytes,
  Callable,
  Float,
  Markup,
  Namespace,
  PyObject,
  Range,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";
import { escapeHtml } from "./text.ts";

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
  return `\\${letter}${code.toString(16).padStart(width as number, "0")}`;
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
