/**
 * Formats in which models write calls in Python, `f(city="Paris", days=2)`: their markers, and the parser that converts
 * the arguments to JSON. Llama's format is here too, as it allows Python besides JSON.
 *
 * @module
 */
import { escape, makeArgumentsCallGrammar, readJsonCalls } from "../json_call.ts";
import {
  type CallFormat,
  type CallParsing,
  makeMarkedFormat,
  type MarkedFormat,
  MAX_NESTING,
  type Parsing,
  TextReader,
} from "../call_format.ts";
import { type GrammarSpec, sequence, text } from "../../../../engine/grammar/grammar.ts";
import { getType } from "../../../../engine/grammar/schema_facts.ts";
import type { ToolFunction } from "../../../task.ts";
import { listParameters, makeListGrammar } from "../parameters.ts";

const [START, END] = ["<|tool_call_start|>", "<|tool_call_end|>"];
const FENCE = "```";

/**
 * LFM2: `<|tool_call_start|>[f(city="Paris")]<|tool_call_end|>`.
 *
 * @see https://docs.liquid.ai/lfm/key-concepts/tool-use
 */
const LISTED: MarkedFormat = {
  name: "lfm2",
  matches: (template) => template.includes("<|tool_list_start|>") || template.includes(START),
  starts: [START],
  end: END,
  /** Parses calls in Python, or in JSON if the system message asked for that. */
  *readCalls(parsing) {
    return (yield* readPythonCalls(parsing)) || (yield* readJsonCalls(parsing));
  },
  writeCall: writePythonCall,
  open: "[",
  separator: ", ",
  close: `]${END}`,
  call: makePythonCallGrammar,
};
export const LFM2 = makeMarkedFormat(LISTED);

/**
 * MiniCPM 3 and 4: a block of Python, with one call per line, between LFM2's markers.
 *
 * @see https://huggingface.co/openbmb/MiniCPM3-4B
 */
export const MINICPM = makeMarkedFormat({
  ...LISTED,
  name: "minicpm",
  matches: (template) => template.includes(START) && template.includes(`${FENCE}python`),
  *readCalls(parsing) {
    const { reader } = parsing;
    yield* reader.skipSpace();
    if (yield* reader.take(FENCE)) yield* reader.take("python");
    return yield* readPythonCalls(parsing);
  },
  open: `\n${FENCE}python\n`,
  separator: "\n",
  close: `\n${FENCE}\n${END}`,
});

const PYTHON_TAG = "<|python_tag|>";
/**
 * The keys that may precede name and arguments in a call without a tag. Any other key shows that the answer is plain
 * JSON.
 */
const OTHER_KEYS: ReadonlySet<string> = new Set(["type", "id"]);

/**
 * Llama 3.1 to 3.3, and 4: `{"name": "f", "parameters": {…}}` as the whole answer or after `<|python_tag|>`, with
 * semicolons between calls; `<|python_tag|>brave_search.call(query="…")`; and `[f(city="Paris")]`.
 *
 * Without the tag, a call counts only if it begins the answer and names an existing function.
 *
 * @see https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
 */
export const LLAMA: CallFormat = {
  name: "llama",
  matches: (template) =>
    template.includes(PYTHON_TAG) ||
    (template.includes('"parameters":') && template.includes("ipython")),
  markers: [PYTHON_TAG],
  parse: read,
  markup: {
    trigger: '{"name": "',
    open: "",
    separator: '; {"name": "',
    close: "",
    call: (called, param) => {
      const head = `${JSON.stringify(called.name).slice(1)}, "parameters": `;
      return makeArgumentsCallGrammar(called, { param, head, tail: "}" });
    },
  },
};

function* read(parsing: CallParsing): Parsing {
  const { reader, sink } = parsing;
  const start = reader.position;
  yield* reader.skipSpace();
  const hasCalls = yield* readRun(parsing, false);
  // A plain word is text, even if it could begin a function's name.
  const isWord = !hasCalls && /^\w/.test(reader.rest);
  if (reader.isCutShort && !isWord) return;
  if (!hasCalls) reader.moveTo(start);
  while ((yield* reader.until(reader.mayRetrace ? [PYTHON_TAG] : [], sink.text)) !== undefined) {
    yield* readRun(parsing, true);
    if (reader.isCutShort) return;
  }
}

/**
 * Parses consecutive calls.
 *
 * @returns whether there was one; if not, the reader's position is restored.
 */
function* readRun(parsing: CallParsing, hasTag: boolean): Parsing<boolean> {
  const { reader, functions } = parsing;
  const isNamed = (name: string) => functions.has(name);
  const callTest = hasTag ? {} : { isCalled: isNamed, isKey: (key: string) => OTHER_KEYS.has(key) };
  let hasCalls = false;
  for (;;) {
    const found = (yield* readJsonCalls(parsing, callTest)) ||
      (yield* readPythonCalls(renameBuiltIn(parsing), hasTag ? () => true : isNamed));
    if (!found) return hasCalls;
    hasCalls = true;
    yield* reader.skipSpace();
    const position = reader.position;
    const goesOn = yield* reader.take(";");
    yield* reader.skipSpace();
    if (!goesOn && (yield* reader.peek()) !== "{") {
      reader.moveTo(position);
      return true;
    }
  }
}

/** Removes the method's name from calls of Llama's built-in tools: `brave_search.call(…)` calls `brave_search`. */
function renameBuiltIn(parsing: CallParsing): CallParsing {
  const { sink } = parsing;
  return {
    ...parsing,
    sink: { ...sink, begin: (name) => sink.begin(name.replace(/\.call$/, "")) },
  };
}

const WORDS: Readonly<Record<string, string>> = {
  True: "true",
  False: "false",
  None: "null",
  true: "true",
  false: "false",
  null: "null",
};

/** The characters of a parameter's name. */
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
 * Parses calls separated by commas or line breaks, with or without brackets around them.
 *
 * @returns whether there was at least one call. If not, nothing was emitted and the reader's position is restored.
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
 * Parses a literal and emits it as JSON.
 *
 * @param depth number of lists and dicts around it.
 * @returns whether the text is a literal that is not nested too deeply.
 */
function* readPythonValue(
  reader: TextReader,
  onJson: (json: string) => void,
  depth = 0,
): Parsing<boolean> {
  const first = yield* reader.peek();
  if (first === '"' || first === "'") return yield* readPythonString(reader, onJson);
  if (/[[({]/.test(first)) {
    return depth < MAX_NESTING && (yield* readItems(reader, onJson, depth + 1));
  }
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
    const isEnd = found === quote ? yield* endsLiteral(reader) : found === ending;
    if (isEnd) break;
    const character = found === quote ? quote : yield* readEscape(reader);
    if (reader.isCutShort) return false;
    onJson(escape(character));
  }
  onJson('"');
  return true;
}

/**
 * Whether a literal can end here. Models that write shell commands often forget to escape a quotation mark within
 * them: `'sed -n '1p' file'`.
 */
function* endsLiteral(reader: TextReader): Parsing<boolean> {
  const { position } = reader;
  yield* reader.skipSpace();
  const next = yield* reader.peek();
  reader.moveTo(position);
  return next === "" ? !reader.isCutShort : ",:)]}".includes(next);
}

function* readEscape(reader: TextReader): Parsing<string> {
  const character = yield* reader.next();
  const numDigits = { x: 2, u: 4, U: 8 }[character];
  if (numDigits === undefined) {
    if (Object.hasOwn(ESCAPES, character)) return ESCAPES[character]!;
    // A backslash at the end of a line continues the line. Python keeps unknown escapes unchanged.
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
  onJson: (json: string) => void,
  depth: number,
): Parsing<boolean> {
  const open = yield* reader.next();
  const close = { "[": "]", "(": ")", "{": "}" }[open]!;
  // The text after the first item shows whether braces hold a dict or a set.
  let isDict = open === "{";
  let begin = isDict ? "{" : "[";
  const write = (json: string) => {
    onJson(begin + json);
    begin = "";
  };
  if (!isDict) write("");
  const isWhole = yield* reader.takeItems(close, function* (isFirst) {
    const separator = isFirst ? "" : ", ";
    if (!isDict) {
      write(separator);
      return yield* readPythonValue(reader, onJson, depth);
    }
    if (/[[({]/.test(yield* reader.peek())) return false;
    let key = "";
    if (!(yield* readPythonValue(reader, (chunk) => key += chunk, depth))) return false;
    yield* reader.skipSpace();
    if (yield* reader.take(":")) {
      write(`${separator}${key.startsWith('"') ? key : JSON.stringify(key)}: `);
      yield* reader.skipSpace();
      return yield* readPythonValue(reader, onJson, depth);
    }
    isDict = false;
    begin = "[";
    const isSet = isFirst && /^[,}]$/.test(yield* reader.peek());
    if (isSet) write(key);
    return isSet;
  });
  if (isWhole) write(isDict ? "}" : "]");
  return isWhole;
}

/**
 * Converts a value written without quotes, in JSON or Python, to JSON: to one of `types` if it is a literal of that type,
 * otherwise to a string.
 */
export function rawToJson(raw: string, types: ReadonlySet<string>): string {
  const word = raw.trim();
  const isConstant = /^(true|false|null)$/i.test(word);
  const constant = isConstant ? word.toLowerCase() : word === "None" ? "null" : word;
  for (const json of [constant, ...pythonToJson(word)]) {
    try {
      const type = getType(JSON.parse(json));
      if (types.has(type) || (type === "number" && types.has("integer"))) return json;
    } catch {
      // Not JSON.
    }
  }
  return JSON.stringify(raw);
}

/** Converts a Python list, tuple, set or dict to JSON. @returns nothing if `word` is none of these. */
function pythonToJson(word: string): readonly string[] {
  if (!/^[[({]/.test(word)) return [];
  const reader = new TextReader();
  reader.feed(word);
  reader.end();
  let json = "";
  const { value } = readPythonValue(reader, (chunk) => json += chunk).next();
  return value === true && reader.position === word.length ? [json] : [];
}

function isWritable(name: string): boolean {
  return name !== "" && Array.from(name).every((character) => KEY.test(character));
}

/** Makes the grammar of a Python call with JSON values, which models that write Python also understand. */
function makePythonCallGrammar(called: ToolFunction, param: string): GrammarSpec {
  const named = listParameters(called, { param, isWritable })
    .map(({ name, isRequired, grammar }) => ({
      isRequired,
      grammar: sequence(text(`${name}=`), grammar),
    }));
  return sequence(text(`${called.name}(`), makeListGrammar(named, ", "), text(")"));
}

/** Writes a Python call with JSON values. */
function writePythonCall(name: string, values: unknown): string {
  const named = Object.entries(typeof values === "object" ? values ?? {} : {});
  return `${name}(${named.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(", ")})`;
}
