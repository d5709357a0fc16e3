/**
 * Parses calls written in Python, `f(city="Paris", days=2)`, into JSON.
 *
 * @module
 */
import { type GrammarSpec, sequence, text } from "../../../engine/grammar/grammar.ts";
import type { ToolFunction } from "../../task.ts";
import type { CallParsing } from "./call_format.ts";
import { escape } from "./json_call.ts";
import { listGrammar, listParameters } from "./parameters.ts";
import type { Parsing, TextReader } from "./text_reader.ts";

const WORDS: Readonly<Record<string, string>> = {
  True: "true",
  False: "false",
  None: "null",
  true: "true",
  false: "false",
  null: "null",
};

/** A character of a parameter's name. */
const KEY = /[^\s=,()[\]{}'"]/u;

const ESCAPES: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  "0": "\0",
};

/**
 * Parses calls separated by commas or line breaks, in brackets or without.
 *
 * @returns whether there was at least one. If not, nothing was emitted and the reader's position is restored.
 */
export function* readPythonCalls(
  parsing: CallParsing,
  isCalled: (name: string) => boolean = () => true,
): Parsing<boolean> {
  const { reader } = parsing;
  const start = reader.position;
  yield* reader.skipSpace();
  yield* reader.take("[");
  let hasCalls = false;
  for (;;) {
    yield* reader.skipSpace();
    if (!(yield* readPythonCall(parsing, isCalled))) break;
    hasCalls = true;
    yield* reader.skipSpace();
    yield* reader.take(",");
  }
  if (hasCalls) yield* reader.take("]");
  else reader.moveTo(start);
  return hasCalls;
}

function* readPythonCall(
  { reader, sink }: CallParsing,
  isCalled: (name: string) => boolean,
): Parsing<boolean> {
  const start = reader.position;
  const name = yield* reader.takeRun(/[\w.:/-]/);
  if (name === "" || !(yield* reader.take("(")) || !isCalled(name)) {
    reader.moveTo(start);
    return false;
  }
  sink.begin(name);
  sink.write("{");
  const isWhole = yield* reader.takeItems(")", function* (isFirst) {
    const key = yield* reader.takeRun(KEY);
    yield* reader.skipSpace();
    if (key === "" || !(yield* reader.take("="))) return false;
    sink.write(`${isFirst ? "" : ", "}${JSON.stringify(key)}: `);
    yield* reader.skipSpace();
    return yield* readPythonValue(reader, sink.write);
  });
  if (isWhole) sink.write("}");
  sink.end();
  return true;
}

/**
 * Parses a literal, and emits it as JSON.
 *
 * @returns whether it is one.
 */
function* readPythonValue(
  reader: TextReader,
  onJson: (json: string) => void,
): Parsing<boolean> {
  const first = yield* reader.peek();
  if (first === '"' || first === "'") return yield* readPythonString(reader, onJson);
  if (first === "[" || first === "(") return yield* readItems(reader, { onJson, isDict: false });
  if (first === "{") return yield* readItems(reader, { onJson, isDict: true });
  const word = yield* reader.takeRun(/[-+.\w]/);
  const json = Object.hasOwn(WORDS, word) ? WORDS[word]! : parseNumber(word);
  if (json !== undefined) onJson(json);
  return json !== undefined;
}

function parseNumber(word: string): string | undefined {
  if (!/^[-+]?(\d[\d_]*)?\.?\d*(e[-+]?\d+)?$/i.test(word) || !/\d/.test(word)) return undefined;
  // Valid JSON is kept verbatim, so that a long number keeps its digits.
  if (/^-?(0|[1-9]\d*)(\.\d+)?(e[-+]?\d+)?$/i.test(word)) return word;
  const value = Number(word.replaceAll("_", ""));
  return Number.isFinite(value) ? String(value) : undefined;
}

function* readPythonString(
  reader: TextReader,
  onJson: (json: string) => void,
): Parsing<boolean> {
  const quote = yield* reader.next();
  if (quote !== '"' && quote !== "'") return false;
  const ending = (yield* reader.take(quote + quote)) ? quote.repeat(3) : quote;
  onJson('"');
  // A pair of quotes is an empty string.
  if (ending === quote && (yield* reader.take(quote))) return onJson('"'), true;
  for (;;) {
    const found = yield* reader.until([ending, "\\"], (chunk) => onJson(escape(chunk)));
    if (found === undefined) return false;
    if (found === ending) break;
    const character = yield* readEscape(reader);
    if (reader.isCutShort) return false;
    onJson(escape(character));
  }
  onJson('"');
  return true;
}

function* readEscape(reader: TextReader): Parsing<string> {
  const character = yield* reader.next();
  const numDigits = { x: 2, u: 4, U: 8 }[character];
  if (numDigits === undefined) {
    if (Object.hasOwn(ESCAPES, character)) return ESCAPES[character]!;
    // A backslash before a line break continues the line; Python keeps an unknown escape.
    if (character === "\n") return "";
    return /["'\\/]/.test(character) ? character : `\\${character}`;
  }
  let digits = "";
  while (digits.length < numDigits && /^[\da-f]$/i.test(yield* reader.peek())) {
    digits += yield* reader.next();
  }
  const code = digits.length === numDigits ? Number.parseInt(digits, 16) : Infinity;
  return code <= 0x10ffff ? String.fromCodePoint(code) : `\\${character}${digits}`;
}

function* readItems(
  reader: TextReader,
  { onJson, isDict }: { readonly onJson: (json: string) => void; readonly isDict: boolean },
): Parsing<boolean> {
  const open = yield* reader.next();
  const close = { "[": "]", "(": ")", "{": "}" }[open]!;
  onJson(isDict ? "{" : "[");
  const isWhole = yield* reader.takeItems(close, function* (isFirst) {
    if (!isFirst) onJson(", ");
    if (isDict) {
      if (!(yield* readPythonString(reader, onJson))) return false;
      yield* reader.skipSpace();
      if (!(yield* reader.take(":"))) return false;
      onJson(": ");
      yield* reader.skipSpace();
    }
    return yield* readPythonValue(reader, onJson);
  });
  if (isWhole) onJson(isDict ? "}" : "]");
  return isWhole;
}

function isWritable(name: string): boolean {
  return name !== "" && Array.from(name).every((character) => KEY.test(character));
}

/** A Python call with JSON values: models that write Python also read those. */
export function pythonCallGrammar(called: ToolFunction, param: string): GrammarSpec {
  const named = listParameters(called, { param, isWritable })
    .map(({ name, isRequired, grammar }) => ({
      isRequired,
      grammar: sequence(text(`${name}=`), grammar),
    }));
  return sequence(text(`${called.name}(`), listGrammar(named, ", "), text(")"));
}

/** Writes a Python call with JSON values. */
export function writePythonCall(name: string, values: unknown): string {
  const named = Object.entries(typeof values === "object" ? values ?? {} : {});
  return `${name}(${named.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")})`;
}
