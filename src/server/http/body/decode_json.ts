/**
 * Decodes JSON bodies. Large bodies are decoded on a separate thread, so that the server's thread stays responsive. The
 * original JSON of some objects is kept, because `JSON.stringify()` would write them differently.
 *
 * @module
 */
import { WorkerPool, WorkerRpc } from "../../../models/threads/worker_pool.ts";

/** A decoded value, and its objects whose original JSON must be kept. */
interface DecodedJson {
  readonly value: unknown;
  readonly originals: readonly OriginalObject[];
}

/** Decodes a body. @throws {SyntaxError} with the reason. */
export function decodeJson(bytes: Uint8Array): unknown {
  return JSON.parse(decodeText(bytes));
}

/** Decodes a body, and finds the objects whose original JSON must be kept. @throws {SyntaxError} with the reason. */
function decodeWithOriginals(bytes: Uint8Array): DecodedJson {
  const text = decodeText(bytes);
  const value: unknown = JSON.parse(text);
  return { value, originals: findOriginalObjects(text) };
}

function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SyntaxError("it is not valid UTF-8");
  }
}

/** Keeps the original JSON of the objects that were found, and returns the value. */
function keepOriginals({ value, originals }: DecodedJson): unknown {
  for (const { path, json } of originals) {
    const found = path.reduce<unknown>(
      (within, key) => (within as Record<string | number, unknown> | null | undefined)?.[key],
      value,
    );
    // If two fields have the same name, only the last one is in the value.
    if (typeof found === "object" && found !== null) texts.set(found, json);
  }
  return value;
}

/** Fields that hold objects of the client's own making, which are shown to the model. */
const FIELDS: ReadonlySet<string> = new Set([
  "parameters",
  "input_schema",
  "arguments",
  "input",
  "chat_template_kwargs",
]);

/**
 * Matches numbers that JavaScript writes differently, and keys that it sorts. It may also match within strings: a match
 * only means that the text is scanned.
 */
const MAY_DIFFER = /\d\.0+(?!\d)|\d[eE][-+\d]|\d{16}|-0|"\d+"[ \t\n\r]*:/;
const HAS_FIELD = new RegExp(`"(?:${[...FIELDS].join("|")})"`);
const NUMBER = /-?\d[\d.eE+-]*/y;
const NUMBER_KEY = /^"\d+"$/;

/** An object's path in the body, and its original JSON. */
interface OriginalObject {
  readonly path: readonly (string | number)[];
  readonly json: string;
}

/**
 * Finds the outermost objects in `FIELDS` whose numbers or keys JavaScript would write differently.
 *
 * @param text valid JSON.
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual(findOriginalObjects('{"tools": [{"parameters": {"minimum": 1.0}}], "temperature": 1.0}'), [
 *   { path: ["tools", 0, "parameters"], json: '{"minimum": 1.0}' },
 * ]);
 * ```
 */
export function findOriginalObjects(text: string): OriginalObject[] {
  if (!MAY_DIFFER.test(text) || !HAS_FIELD.test(text)) return [];
  return new Scanner(text).scan();
}

/** An object or array that contains the scanner's position. */
interface Level {
  readonly isObject: boolean;
  /** The name or index of the value being read. */
  key: string | number;
}

class Scanner {
  readonly #text: string;
  readonly #levels: Level[] = [];
  readonly #found: OriginalObject[] = [];
  /** Whether the next string is a key. */
  #isKey = false;
  /** The current object in a field of `FIELDS`, and the number of levels around it. */
  #open: { readonly start: number; readonly depth: number; differs: boolean } | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  scan(): OriginalObject[] {
    const text = this.#text;
    for (let at = 0; at < text.length;) at = this.#take(at);
    return this.#found;
  }

  /** Reads the token at an offset. @returns the offset after the token. */
  #take(at: number): number {
    const char = this.#text[at]!;
    if (char === '"') return this.#takeString(at);
    if (char === "{" || char === "[") this.#enter(char === "{", at);
    else if (char === "}" || char === "]") this.#leave(at + 1);
    else if (char === ",") this.#beginNext();
    else if (char === ":") this.#isKey = false;
    else if (char === "-" || (char >= "0" && char <= "9")) return this.#takeNumber(at);
    return at + 1;
  }

  #takeString(at: number): number {
    const end = findStringEnd(this.#text, at);
    const level = this.#levels.at(-1);
    if (!this.#isKey || level === undefined) return end;
    const written = this.#text.slice(at, end);
    if (this.#open !== undefined && NUMBER_KEY.test(written)) this.#open.differs = true;
    // Inside an object that may be kept as a whole, paths are not needed.
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

  /** Goes on to the next value of an object or array. */
  #beginNext(): void {
    const level = this.#levels.at(-1);
    if (level === undefined) return;
    this.#isKey = level.isObject;
    if (typeof level.key === "number") level.key++;
  }
}

/** Whether JavaScript would write a number differently: an integer that is too large, or a float that is an integer. */
function differs(written: string): boolean {
  const value = Number(written);
  if (/^-?\d+$/.test(written)) return !Number.isSafeInteger(value);
  return Number.isInteger(value);
}

/** Returns the offset after a string's closing quote. */
function findStringEnd(text: string, start: number): number {
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

/**
 * The original JSON of objects in requests. JavaScript reads 1.0 as 1, rounds large integers and sorts numeric keys. A
 * chat template must show a function's schema or arguments without these changes, as Python would.
 */
const texts = new WeakMap<object, string>();

/** Returns the original JSON of an object, if JavaScript would write the object differently. */
export function findOriginalJson(value: object): string | undefined {
  return texts.get(value);
}

/** Writes an object as JSON, with the numbers and the order of keys that the client sent. */
export function writeOriginalJson(value: object): string {
  return texts.get(value) ?? JSON.stringify(value);
}

/** Size of the largest body that is decoded on the server's thread. Decoding it takes a few milliseconds. */
const MAX_OWN_BYTES = 256 * 1024;

/** The functions that the decoding thread serves. */
export const JSON_FUNCTIONS = {
  /** @returns the decoded value, or the reason why the body is not JSON. */
  decode(bytes: Uint8Array): DecodedJson | { readonly why: string } {
    try {
      return decodeWithOriginals(bytes);
    } catch (error) {
      return { why: (error as Error).message };
    }
  },
};

/** The decoding thread. It is started for a large body, and ended when there has been none for a while. */
const thread = new WorkerPool<typeof JSON_FUNCTIONS>({
  size: 1,
  numKept: 0,
  start: () =>
    new WorkerRpc(new URL("./json_thread.ts", import.meta.url), "thread that decodes JSON"),
});
const { signal: NEVER } = new AbortController();

/** Decodes a body. The bytes may be transferred. @throws {SyntaxError} with the reason. */
export async function decodeBody(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
  if (bytes.length <= MAX_OWN_BYTES) return keepOriginals(decodeWithOriginals(bytes));
  const answer = await thread.call("decode", bytes, { signal: NEVER, transfer: [bytes.buffer] });
  if ("why" in answer) throw new SyntaxError(answer.why);
  return keepOriginals(answer);
}
