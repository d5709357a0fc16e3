/**
 * Decodes the bytes of a JSON body.
 *
 * @module
 */

/** A value, and those of its objects whose JSON says more. */
interface DecodedJson {
  readonly value: unknown;
  readonly written: readonly WrittenObject[];
}

/** @throws {SyntaxError} with the reason. */
export function decodeJson(bytes: Uint8Array): unknown {
  return JSON.parse(decodeText(bytes));
}

/** Decodes a body. @throws {SyntaxError} with the reason. */
export function decodeWritten(bytes: Uint8Array): DecodedJson {
  const text = decodeText(bytes);
  const value: unknown = JSON.parse(text);
  return { value, written: findWrittenObjects(text) };
}

function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SyntaxError("it is not valid UTF-8");
  }
}

/** The value, its objects known by how they were written. */
export function keepAllWritten({ value, written }: DecodedJson): unknown {
  for (const { path, json } of written) {
    const found = path.reduce<unknown>(
      (within, key) => (within as Record<string | number, unknown> | null | undefined)?.[key],
      value,
    );
    // Of two fields with one name only the last is there.
    if (typeof found === "object" && found !== null) keepWritten(found, json);
  }
  return value;
}

/** Fields whose objects have names of the client's choice, and are shown to the model. */
const FIELDS: ReadonlySet<string> = new Set([
  "parameters",
  "input_schema",
  "arguments",
  "input",
  "chat_template_kwargs",
]);

/** Numbers that JavaScript writes otherwise, and keys that it sorts; within strings too, as this only looks. */
const MAY_DIFFER = /\d\.0+(?!\d)|\d[eE][-+\d]|\d{16}|-0|"\d+"[ \t\n\r]*:/;
const FIELD_AT_ALL = new RegExp(`"(?:${[...FIELDS].join("|")})"`);
const NUMBER = /-?\d[\d.eE+-]*/y;
const NUMBER_KEY = /^"\d+"$/;

/** Where an object is in the body, and its JSON. */
interface WrittenObject {
  readonly path: readonly (string | number)[];
  readonly json: string;
}

/**
 * The outermost objects in such fields that hold such numbers or keys.
 *
 * @param text valid JSON.
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual(findWrittenObjects('{"tools": [{"parameters": {"minimum": 1.0}}], "temperature": 1.0}'), [
 *   { path: ["tools", 0, "parameters"], json: '{"minimum": 1.0}' },
 * ]);
 * ```
 */
export function findWrittenObjects(text: string): WrittenObject[] {
  if (!MAY_DIFFER.test(text) || !FIELD_AT_ALL.test(text)) return [];
  return new Scanner(text).scan();
}

/** An object or array that the scanner is in. */
interface Level {
  readonly isObject: boolean;
  /** The name or index of the value that is read. */
  key: string | number;
}

class Scanner {
  readonly #text: string;
  readonly #levels: Level[] = [];
  readonly #found: WrittenObject[] = [];
  #isKey = false;
  /** The object that may be kept, with the number of levels around it. */
  #open: { readonly start: number; readonly depth: number; differs: boolean } | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  scan(): WrittenObject[] {
    const text = this.#text;
    for (let at = 0; at < text.length;) at = this.#take(at);
    return this.#found;
  }

  /** Takes what begins at an offset, and returns where it ends. */
  #take(at: number): number {
    const char = this.#text[at]!;
    if (char === '"') return this.#takeString(at);
    if (char === "{" || char === "[") this.#enter(char === "{", at);
    else if (char === "}" || char === "]") this.#leave(at + 1);
    else if (char === ",") this.#goOn();
    else if (char === ":") this.#isKey = false;
    else if (char === "-" || (char >= "0" && char <= "9")) return this.#takeNumber(at);
    return at + 1;
  }

  #takeString(at: number): number {
    const end = endOfString(this.#text, at);
    const level = this.#levels.at(-1);
    if (!this.#isKey || level === undefined) return end;
    const written = this.#text.slice(at, end);
    if (this.#open !== undefined && NUMBER_KEY.test(written)) this.#open.differs = true;
    // Keys below an object that is kept whole are of no use.
    if (this.#open === undefined) level.key = JSON.parse(written);
    return end;
  }

  #takeNumber(at: number): number {
    NUMBER.lastIndex = at;
    const [written] = NUMBER.exec(this.#text)!;
    if (this.#open !== undefined && differs(written)) this.#open.differs = true;
    return at + written.length;
  }

  #enter(isObject: boolean, start: number): void {
    const field = this.#levels.at(-1)?.key;
    if (this.#open === undefined && isObject && typeof field === "string" && FIELDS.has(field)) {
      this.#open = { start, depth: this.#levels.length, differs: false };
    }
    this.#levels.push({ isObject, key: isObject ? "" : 0 });
    this.#isKey = isObject;
  }

  #leave(end: number): void {
    this.#levels.pop();
    if (this.#open?.depth !== this.#levels.length) return;
    if (this.#open.differs) {
      const path = this.#levels.map(({ key }) => key);
      this.#found.push({ path, json: this.#text.slice(this.#open.start, end) });
    }
    this.#open = undefined;
  }

  #goOn(): void {
    const level = this.#levels.at(-1);
    if (level === undefined) return;
    this.#isKey = level.isObject;
    if (typeof level.key === "number") level.key++;
  }
}

/** Whether JavaScript would write the number otherwise, or take a float for an integer. */
function differs(written: string): boolean {
  const value = Number(written);
  if (/^-?\d+$/.test(written)) return !Number.isSafeInteger(value);
  return Number.isInteger(value);
}

/** The offset behind a string's closing quote. */
function endOfString(text: string, start: number): number {
  let end = start;
  do {
    end = text.indexOf('"', end + 1);
  } while (isEscaped(text, end));
  return end + 1;
}

function isEscaped(text: string, quote: number): boolean {
  let before = quote;
  while (text[before - 1] === "\\") before--;
  return (quote - before) % 2 === 1;
}

/** A body to decode. */
export interface ToJsonThread {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /**
   * A port for one answer: for messages on a worker itself Deno keeps a buffer of the largest one, perhaps a hundred
   * megabytes, as long as the worker lives.
   */
  readonly port: MessagePort;
}

/** Its value, or the error. */
export type FromJsonThread = DecodedJson | { readonly why: string };

/**
 * Objects of a request as they were written. JavaScript reads 1.0 as 1, rounds large integers and
 * sorts keys that are numbers; a chat template shows a function's schema or arguments as Python
 * would, which keeps them.
 */
const texts = new WeakMap<object, string>();

/** Keeps the JSON that an object was read from. */
function keepWritten(value: object, json: string): void {
  texts.set(value, json);
}

/** The JSON that an object was read from, if its own would differ. */
export function findWritten(value: object): string | undefined {
  return texts.get(value);
}

/** The object as JSON, numbers as they were written. */
export function writeAsWritten(value: object): string {
  return texts.get(value) ?? JSON.stringify(value);
}
