import { StartupError } from "../base/errors.ts";
import { type Pattern, RegexPattern, StringPattern } from "./regex/pattern.ts";

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

  /** The type of the part; empty if it does not say. */
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

  /** @throws {StartupError} when the field has another type; the other readers do too. */
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

  /** Reads a pattern: `{"String": …}` or `{"Regex": …}`. */
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
