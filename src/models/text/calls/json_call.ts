/**
 * Calls as JSON objects: `{"name": "f", "arguments": {…}}`.
 *
 * @module
 */
import { type GrammarSpec, sequence, text } from "../../../engine/grammar/grammar.ts";
import type { ToolFunction } from "../../task.ts";
import type { CallParsing, Parsing, TextReader } from "./call_format.ts";

const NAME_KEYS: ReadonlySet<string> = new Set(["name", "tool_name"]);
const ARGUMENT_KEYS: ReadonlySet<string> = new Set(["arguments", "parameters"]);
/** Characters that JSON allows in strings only as escape sequences. */
// deno-lint-ignore no-control-regex
const CONTROL = /[\0-\x1f]/;

/** Restricts which JSON objects count as calls; without tests any object with a name does. */
interface CallTest {
  /** Whether there is a function of this name. */
  readonly isCalled?: (name: string) => boolean;
  /** Whether this key, which is neither name nor arguments, may precede the name. */
  readonly isKey?: (key: string) => boolean;
}

/**
 * Parses one call, whose keys may come in any order. Once the name is known, arguments are emitted as they arrive.
 *
 * @returns whether it was a call. If not, nothing was emitted and the reader's position is restored.
 */
function* readJsonCall(
  { reader, sink }: CallParsing,
  { isCalled = () => true, isKey = () => true }: CallTest,
): Parsing<boolean> {
  const start = reader.position;
  let name: string | undefined;
  /** Arguments that came before the name. */
  let early: string | undefined;
  let hasBegun = false;
  const begin = (name: string) => {
    hasBegun = true;
    sink.begin(name);
  };
  const isWhole = (yield* reader.take("{")) && (yield* reader.takeItems("}", function* () {
    const key = yield* readString(reader);
    yield* reader.skipSpace();
    if (key === undefined || !(yield* reader.take(":"))) return false;
    yield* reader.skipSpace();
    if (NAME_KEYS.has(key) && name === undefined) {
      name = yield* readString(reader);
      if (name === undefined || !isCalled(name)) return false;
      if (early !== undefined) {
        begin(name);
        sink.write(early);
      }
      return true;
    }
    const isArguments = ARGUMENT_KEYS.has(key) && !hasBegun && early === undefined;
    if (!isArguments) {
      return (name !== undefined || isKey(key)) && (yield* readValue(reader, () => {}));
    }
    if (name !== undefined) {
      begin(name);
      return yield* readArguments(reader, sink.write);
    }
    let json = "";
    const isRead = yield* readArguments(reader, (chunk) => json += chunk);
    early = json;
    return isRead;
  }));
  if (name === undefined || (!isWhole && !hasBegun)) {
    reader.moveTo(start);
    return false;
  }
  if (!hasBegun) {
    begin(name);
    sink.write("{}");
  }
  sink.end();
  return true;
}

/**
 * Parses a single call or an array of calls.
 *
 * @returns whether there was at least one. If not, nothing was emitted and the reader's position is restored.
 */
export function* readJsonCalls(
  parsing: CallParsing,
  test: CallTest = {},
): Parsing<boolean> {
  const { reader } = parsing;
  const start = reader.position;
  let hasCalls = false;
  const takeCall = function* () {
    const isCall = yield* readJsonCall(parsing, test);
    hasCalls ||= isCall;
    return isCall;
  };
  yield* reader.skipSpace();
  if (yield* reader.take("[")) yield* reader.takeItems("]", takeCall);
  else yield* takeCall();
  if (!hasCalls) reader.moveTo(start);
  return hasCalls;
}

/** Parses arguments: an object or, as some models write them, a string that holds an object, or `null`. */
export function* readArguments(
  reader: TextReader,
  onJson: (json: string) => void,
): Parsing<boolean> {
  const first = yield* reader.peek();
  if (first === "{") return yield* readValue(reader, onJson);
  if (first === '"') {
    const text = yield* readString(reader);
    if (text !== undefined) onJson(text.trim() === "" ? "{}" : text);
    return text !== undefined;
  }
  const isNull = yield* reader.take("null");
  if (isNull) onJson("{}");
  return isNull;
}

/** Parses a JSON string. */
export function* readString(reader: TextReader): Parsing<string | undefined> {
  let json = "";
  const isWhole = (yield* reader.peek()) === '"' &&
    (yield* readValue(reader, (chunk) => json += chunk));
  if (!isWhole) return undefined;
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/**
 * Parses one JSON value. Within objects and arrays, only strings and brackets are checked. Three mistakes of models
 * are mended: line breaks and other control characters in strings are escaped, so are backslashes before characters that
 * JSON does not escape, and a comma after the last item is dropped.
 *
 * @param onJson receives the value in chunks, verbatim except for these repairs.
 * @returns whether it is complete.
 */
function* readValue(
  reader: TextReader,
  onJson: (json: string) => void,
): Parsing<boolean> {
  const open: string[] = [];
  let isInString = false;
  /** A comma, and the space after it, until an item follows. */
  let comma = "";
  for (;;) {
    const character = yield* reader.peek();
    if (character === "") return false;
    const isScalar = !isInString && open.length === 0 && !/["[{]/.test(character);
    if (isScalar) {
      const word = yield* reader.takeRun(/[-+.\w]/);
      onJson(word);
      return word !== "";
    }
    yield* reader.next();
    if (isInString) {
      if (character === "\\") onJson(writeEscape(yield* reader.next()));
      else onJson(CONTROL.test(character) ? escape(character) : character);
      if (character !== '"') continue;
      isInString = false;
      if (open.length === 0) return true;
      continue;
    }
    if (comma === "" ? character === "," : /\s/.test(character)) {
      comma += character;
      continue;
    }
    onJson(/[\]}]/.test(character) ? character : comma + character);
    comma = "";
    if (character === '"') isInString = true;
    else if (character === "{" || character === "[") open.push(character === "{" ? "}" : "]");
    else if (character === "}" || character === "]") {
      if (open.pop() !== character) return false;
    }
    if (!isInString && open.length === 0) return true;
  }
}

/**
 * Writes an escape sequence, given the character after its backslash; nothing at the end of a truncated text. If JSON
 * lacks the sequence, its backslash is text.
 */
function writeEscape(character: string): string {
  if (/["\\/bfnrtu]/.test(character)) return `\\${character}`;
  if (character === "'" || character === "") return character;
  return `\\\\${CONTROL.test(character) ? escape(character) : character}`;
}

/** Escapes text for the inside of a JSON string. */
export function escape(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Keywords through which a schema may name properties. */
const NAMING = ["properties", "allOf", "anyOf", "oneOf", "$ref"];

/**
 * Makes the grammar of a function's arguments from its schema. If the schema names properties, other properties are
 * excluded.
 */
function makeArgumentsGrammar(
  { parameters, strict }: ToolFunction,
  param: string,
): GrammarSpec {
  if (parameters === undefined || strict === false) return { kind: "json_object" };
  const isListed = NAMING.some((keyword) => parameters[keyword] !== undefined);
  const schema = {
    type: "object",
    $ref: "#",
    // Unlike `additionalProperties`, this allows the names in the schema that `$ref` refers to.
    ...isListed && { unevaluatedProperties: false },
  };
  return { kind: "json_schema", schema, param, within: { schema: parameters, param } };
}

/**
 * Makes the grammar of a call with fixed text before and after the arguments.
 *
 * @param param path of the function's parameters in the request.
 */
export function makeArgumentsCallGrammar(
  called: ToolFunction,
  { param, head, tail }: { readonly param: string; readonly head: string; readonly tail: string },
): GrammarSpec {
  return sequence(text(head), makeArgumentsGrammar(called, param), text(tail));
}

/** Makes the grammar of a call as a JSON object: `{"name": "f", "arguments": {…}}`. */
export function makeJsonCallGrammar(called: ToolFunction, param: string): GrammarSpec {
  const head = `{"name": ${JSON.stringify(called.name)}, "arguments": `;
  return makeArgumentsCallGrammar(called, { param, head, tail: "}" });
}
