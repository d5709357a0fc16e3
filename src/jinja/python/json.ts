/**
 * Reads and writes JSON as Python does: 1.0 stays a float, ints have any size, keys keep their order.
 *
 * @module
 */
import { charge, chargeText, descend, requireShort } from "../meter.ts";
import { Float, getTypeName, raise, toItems, toText, type Value } from "./values.ts";
import { Dict } from "./collections.ts";
import { sortBy } from "./compare.ts";
import { asInt, formatFloat, formatInt, toInt } from "./numbers.ts";
import { fill } from "./text.ts";

const MAX_DEPTH = 500;
const TOKEN =
  /[ \t\n\r]*(?:("[^"\\]*(?:\\[^][^"\\]*)*")|(-?\d+)((?:\.\d+)?(?:[eE][+-]?\d+)?)|([[\]{},:]|true|false|null))/y;

/**
 * Python's `json.loads(text)`.
 *
 * @throws {TemplateError} `JSONDecodeError` when it is not JSON.
 */
export function parseJson(text: string): Value {
  return new Reader(text).readAll();
}

class Reader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readAll(): Value {
    const value = this.#read();
    if (this.#text.slice(this.#at).trim() !== "") this.#fail();
    return value;
  }

  #fail(): never {
    return raise("JSONDecodeError", `invalid JSON at character ${this.#at}`);
  }

  #next(): RegExpExecArray {
    TOKEN.lastIndex = this.#at;
    const token = TOKEN.exec(this.#text) ?? this.#fail();
    this.#at = TOKEN.lastIndex;
    return token;
  }

  #read(): Value {
    return this.#parseValue(this.#next());
  }

  #parseValue([, text, whole, rest, sign]: RegExpExecArray): Value {
    if (text !== undefined) return this.#unquote(text);
    if (whole !== undefined) {
      return rest === "" ? this.#parseInteger(whole) : new Float(Number(whole + rest));
    }
    if (sign === "[") return this.#nest(() => this.#readList());
    if (sign === "{") return this.#nest(() => this.#readDict());
    if (sign === "null") return null;
    return sign === "true" ? true : sign === "false" ? false : this.#fail();
  }

  #unquote(text: string): string {
    try {
      return JSON.parse(text) as string;
    } catch {
      return this.#fail();
    }
  }

  #parseInteger(text: string): Value {
    if (/^-?0\d/.test(text)) this.#fail();
    const number = Number(text);
    return Number.isSafeInteger(number) ? (number === 0 ? 0 : number) : toInt(BigInt(text));
  }

  #nest<T>(read: () => T): T {
    if (++this.#depth > MAX_DEPTH) this.#fail();
    const value = read();
    this.#depth--;
    return value;
  }

  #readList(): Value[] {
    const items: Value[] = [];
    for (;;) {
      const token = this.#next();
      if (token[4] === "]" && items.length === 0) return items;
      items.push(this.#parseValue(token));
      const [, , , , sign] = this.#next();
      if (sign === "]") return items;
      if (sign !== ",") this.#fail();
    }
  }

  #readDict(): Dict {
    const dict = new Dict();
    for (;;) {
      const [, key, , , close] = this.#next();
      if (close === "}" && dict.size === 0) return dict;
      if (key === undefined || this.#next()[4] !== ":") this.#fail();
      dict.set(this.#unquote(key), this.#read());
      const [, , , , sign] = this.#next();
      if (sign === "}") return dict;
      if (sign !== ",") this.#fail();
    }
  }
}

/** Formatting options for writing JSON. */
interface JsonStyle {
  readonly isAscii: boolean;
  /** Whitespace per level; everything on one line if absent. */
  readonly indent?: string | undefined;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortsKeys: boolean;
}

/**
 * Python's `json.dumps(value)`.
 *
 * @throws {TemplateError} when a value has no JSON equivalent.
 */
export function writeJson(value: Value, style: JsonStyle): string {
  const writer = new Writer(style);
  writer.write(value, 0);
  return writer.finish();
}

class Writer {
  readonly #style: JsonStyle;
  readonly #parts: string[] = [];
  #length = 0;

  constructor(style: JsonStyle) {
    this.#style = style;
  }

  finish(): string {
    return this.#parts.join("");
  }

  #push(part: string): void {
    charge(2);
    requireShort(this.#length += part.length);
    this.#parts.push(part);
  }

  write(value: Value, level: number): void {
    const text = toText(value);
    const items = toItems(value);
    if (text !== undefined) this.#push(this.#quote(text));
    else if (items !== undefined) this.#writeList(items, level);
    else if (value instanceof Dict) this.#writeDict(value, level);
    else this.#push(writeScalar(value));
  }

  #writeList(items: readonly Value[], level: number): void {
    if (items.length === 0) return this.#push("[]");
    this.#push("[");
    items.forEach((item, index) => {
      this.#startItem(index, level + 1);
      descend(() => this.write(item, level + 1));
    });
    this.#endItems(level);
    this.#push("]");
  }

  #writeDict(dict: Dict, level: number): void {
    if (dict.size === 0) return this.#push("{}");
    this.#push("{");
    this.#listEntries(dict).forEach(([key, value], index) => {
      this.#startItem(index, level + 1);
      this.#push(this.#quote(keyText(key)) + this.#style.keySeparator);
      descend(() => this.write(value, level + 1));
    });
    this.#endItems(level);
    this.#push("}");
  }

  #listEntries(dict: Dict): (readonly [Value, Value])[] {
    const entries = [...dict.entries()];
    return this.#style.sortsKeys ? sortBy(entries, ([key]) => key) : entries;
  }

  #startItem(index: number, level: number): void {
    const { indent, itemSeparator } = this.#style;
    if (index > 0) this.#push(itemSeparator);
    if (indent !== undefined) this.#push(`\n${fill(level, indent)}`);
  }

  #endItems(level: number): void {
    const { indent } = this.#style;
    if (indent !== undefined) this.#push(`\n${fill(level, indent)}`);
  }

  #quote(text: string): string {
    chargeText(text.length);
    const quoted = JSON.stringify(text);
    // JavaScript always escapes lone surrogates.
    if (this.#style.isAscii) return quoted.replaceAll(/[^\0-\x7e]/g, escapeUnit);
    return quoted.includes("\\ud") ? quoteUnescaped(text) : quoted;
  }
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function quoteUnescaped(text: string): string {
  const parts = text.split(/([\ud800-\udfff])/);
  return `"${
    parts.map((part) => part.length === 1 ? unquoted(part) : JSON.stringify(part).slice(1, -1))
      .join("")
  }"`;
}

function unquoted(unit: string): string {
  return /[\ud800-\udfff]/.test(unit) ? unit : JSON.stringify(unit).slice(1, -1);
}

function writeScalar(value: Value): string {
  if (value === null) return "null";
  if (typeof value === "boolean") return String(value);
  if (typeof value === "number" || typeof value === "bigint") return formatInt(value);
  if (value instanceof Float) {
    if (Number.isFinite(value.value)) return formatFloat(value.value);
    return Number.isNaN(value.value) ? "NaN" : value.value < 0 ? "-Infinity" : "Infinity";
  }
  return raise("TypeError", `Object of type ${getTypeName(value)} is not JSON serializable`);
}

function keyText(key: Value): string {
  const text = toText(key);
  if (text !== undefined) return text;
  const isScalar = key === null || asInt(key) !== undefined || key instanceof Float;
  if (isScalar) return writeScalar(key);
  return raise("TypeError", `keys must be str, int, float, bool or None, not ${getTypeName(key)}`);
}
