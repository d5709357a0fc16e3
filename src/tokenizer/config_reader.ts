import { StartupError } from "../base/errors.ts";
import { Matcher } from "./regex/matcher.ts";
import { compileRegex, type Program } from "./regex/program.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Deepest nesting of parts, such as sequences within sequences. */
const MAX_DEPTH = 32;

/** Reads a part of `tokenizer.json`. Its errors name the part's path. */
export class ConfigReader {
  /** Path of the part, such as `pre_tokenizer.pretokenizers[1]`. */
  readonly path: string;
  readonly #fields: Fields;

  /** @throws {StartupError} when the value is not an object. */
  constructor(value: unknown, path: string) {
    this.path = path;
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw wrongValue(path, value, "an object");
    }
    if (path.split(".").length > MAX_DEPTH) {
      throw new StartupError(`tokenizer.json: ${path}: want at most ${MAX_DEPTH} nested parts.`);
    }
    this.#fields = value as Fields;
  }

  /** The part's `type`; empty if it has none. */
  get type(): string {
    const type = this.#fields["type"];
    return typeof type === "string" ? type : "";
  }

  has(name: string): boolean {
    return (this.#fields[name] ?? undefined) !== undefined;
  }

  raw(name: string): unknown {
    return this.#fields[name];
  }

  /** @throws {StartupError} when the field has another type. The methods below throw the same error. */
  string(name: string, fallback?: string): string {
    const value = this.#fields[name] ?? fallback;
    if (typeof value !== "string") throw wrongValue(this.#joinPath(name), value, "a string");
    return value;
  }

  boolean(name: string, fallback?: boolean): boolean {
    const value = this.#fields[name] ?? fallback;
    if (typeof value !== "boolean") throw wrongValue(this.#joinPath(name), value, "a boolean");
    return value;
  }

  number(name: string, fallback?: number): number {
    const value = this.#fields[name] ?? fallback;
    if (typeof value !== "number") throw wrongValue(this.#joinPath(name), value, "a number");
    return value;
  }

  /** The field; `undefined` if it has no value. */
  optionalString(name: string): string | undefined {
    return this.has(name) ? this.string(name) : undefined;
  }

  optionalBoolean(name: string): boolean | undefined {
    return this.has(name) ? this.boolean(name) : undefined;
  }

  array(name: string): readonly unknown[] {
    const value = this.#fields[name];
    if (!Array.isArray(value)) throw wrongValue(this.#joinPath(name), value, "an array");
    return value;
  }

  /** Readers for the parts in an array. */
  parts(name: string): ConfigReader[] {
    return this.array(name).map((value, index) =>
      new ConfigReader(value, `${this.#joinPath(name)}[${index}]`)
    );
  }

  part(name: string): ConfigReader {
    return new ConfigReader(this.#fields[name], this.#joinPath(name));
  }

  /** Reads a pattern: `{"String": …}`, `{"Regex": …}`, or a plain string. */
  pattern(name: string): Pattern {
    const value = this.#fields[name];
    if (typeof value === "string") return new StringPattern(value);
    const pattern = this.part(name);
    const text = pattern.optionalString("String");
    if (text !== undefined) return new StringPattern(text);
    try {
      return new RegexPattern(pattern.string("Regex"));
    } catch (error) {
      const { name, message } = error as Error;
      if (name !== "SyntaxError" && name !== "RangeError") throw error;
      const reason = name === "RangeError" ? "the expression is nested too deeply" : message;
      throw new StartupError(`tokenizer.json: ${pattern.path}.Regex: ${reason}`);
    }
  }

  unknownType(): StartupError {
    return wrongValue(this.#joinPath("type"), this.#fields["type"], "a type that Hearth knows");
  }

  #joinPath(name: string): string {
    return this.path === "" ? name : `${this.path}.${name}`;
  }
}

function wrongValue(path: string, saw: unknown, wanted: string): StartupError {
  const shown = JSON.stringify(saw)?.slice(0, 80) ?? "nothing";
  return new StartupError(`tokenizer.json: ${path}: want ${wanted}, saw ${shown}.`);
}

/** Something to search for in a text: a regular expression or a plain string. */
export interface Pattern {
  /**
   * All matches in a text from left to right: start and end of each, alternating.
   *
   * @throws {BudgetError} when the search takes too many steps.
   */
  findAll(text: string): number[];
}

/**
 * A regular expression in Oniguruma's syntax.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const words = new RegexPattern("\\p{L}+|\\s+(?!\\S)|\\s");
 * assert.deepEqual(words.findAll("ab  c"), [0, 2, 2, 3, 3, 4, 4, 5]);
 * ```
 */
export class RegexPattern implements Pattern {
  readonly #program: Program;

  /** @throws {SyntaxError} saying what is invalid or unknown. */
  constructor(source: string) {
    this.#program = compileRegex(source);
  }

  findAll(text: string): number[] {
    const found: number[] = [];
    const matcher = new Matcher(this.#program, text);
    let lastEnd = -1;
    for (let from = 0; from <= text.length;) {
      const match = matcher.find(from);
      if (match === undefined) break;
      const [start, end] = match;
      // An empty match right after another match does not count.
      if (start === end && end === lastEnd) {
        from = end + (text.codePointAt(end)! > 0xffff ? 2 : 1);
        continue;
      }
      found.push(start, end);
      from = lastEnd = end;
    }
    return found;
  }
}

export class StringPattern implements Pattern {
  readonly #wanted: string;

  constructor(wanted: string) {
    this.#wanted = wanted;
  }

  findAll(text: string): number[] {
    const found: number[] = [];
    const { length } = this.#wanted;
    if (length === 0) return EMPTY_PATTERN.findAll(text);
    for (
      let at = text.indexOf(this.#wanted);
      at >= 0;
      at = text.indexOf(this.#wanted, at + length)
    ) {
      found.push(at, at + length);
    }
    return found;
  }
}

const EMPTY_PATTERN = new RegexPattern("");
