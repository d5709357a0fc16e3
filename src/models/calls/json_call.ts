/**
 * Calls as JSON objects: `{"name": "f", "arguments": {…}}`.
 *
 * @module
 */
import type { GrammarSpec } from "../../grammar/spec.ts";
import type { ToolFunction } from "../task.ts";
import type { CallParsing } from "./call_format.ts";
import type { Parsing, TextReader } from "./text_reader.ts";

const NAME_KEYS: ReadonlySet<string> = new Set(["name", "tool_name"]);
const ARGUMENT_KEYS: ReadonlySet<string> = new Set(["arguments", "parameters"]);

/**
 * Reads one call, its keys in any order. Arguments are emitted incrementally once the name is known.
 *
 * @param isCalled whether a function of this name exists.
 * @returns whether it was a call. If not, nothing was emitted and the reader's position is restored.
 */
export function* readJsonCall(
  { reader, sink }: CallParsing,
  isCalled: (name: string) => boolean = () => true,
): Parsing<boolean> {
  const start = reader.position;
  const fail = () => {
    reader.moveTo(start);
    return false;
  };
  let name: string | undefined;
  let json: string | undefined;
  let hasBegun = false;
  const begin = (name: string) => {
    hasBegun = true;
    sink.begin(name);
  };
  // After the call has begun, invalid text ends it.
  const giveUp = () => {
    if (!hasBegun) return fail();
    sink.end();
    return true;
  };
  if (!(yield* reader.take("{"))) return fail();
  for (;;) {
    yield* reader.skipSpace();
    if (yield* reader.take("}")) break;
    const key = yield* readString(reader);
    yield* reader.skipSpace();
    if (key === undefined || !(yield* reader.take(":"))) return giveUp();
    yield* reader.skipSpace();
    if (NAME_KEYS.has(key) && name === undefined) {
      name = yield* readString(reader);
      if (name === undefined || !isCalled(name)) return giveUp();
      if (json !== undefined) {
        begin(name);
        sink.write(json);
      }
    } else if (ARGUMENT_KEYS.has(key) && !hasBegun && json === undefined) {
      if (name !== undefined) begin(name);
      const pieces: string[] = [];
      const write = name === undefined ? (piece: string) => void pieces.push(piece) : sink.write;
      if (!(yield* readArguments(reader, write))) return giveUp();
      json = pieces.join("");
    } else if (!(yield* readValue(reader, () => {}))) return giveUp();
    yield* reader.skipSpace();
    if (yield* reader.take(",")) continue;
    if (yield* reader.take("}")) break;
    return giveUp();
  }
  if (name === undefined) return fail();
  if (!hasBegun) {
    begin(name);
    sink.write("{}");
  }
  sink.end();
  return true;
}

/**
 * Reads calls in an array, or a single one.
 *
 * @returns whether there was at least one.
 */
export function* readJsonCalls(
  parsing: CallParsing,
  isCalled?: (name: string) => boolean,
): Parsing<boolean> {
  const { reader } = parsing;
  const start = reader.position;
  yield* reader.skipSpace();
  const isList = yield* reader.take("[");
  yield* reader.skipSpace();
  if (!(yield* readJsonCall(parsing, isCalled))) {
    reader.moveTo(start);
    return false;
  }
  while (isList) {
    yield* reader.skipSpace();
    if (yield* reader.take("]")) break;
    if (!(yield* reader.take(","))) break;
    yield* reader.skipSpace();
    if (!(yield* readJsonCall(parsing, isCalled))) break;
  }
  return true;
}

/** Reads arguments: an object; a string that holds one, or `null`, as some models write them. */
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

/** Reads a string of JSON. */
export function* readString(reader: TextReader): Parsing<string | undefined> {
  const start = reader.position;
  if ((yield* reader.peek()) !== '"' || !(yield* readValue(reader, () => {}))) return undefined;
  try {
    return JSON.parse(reader.since(start));
  } catch {
    return undefined;
  }
}

/**
 * Reads one JSON value; within an object or an array only strings and brackets are parsed.
 *
 * @param onJson receives the value verbatim, in pieces.
 * @returns whether it was complete.
 */
export function* readValue(
  reader: TextReader,
  onJson: (json: string) => void,
): Parsing<boolean> {
  const open: string[] = [];
  let isInString = false;
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
    onJson(character);
    if (isInString) {
      if (character === "\\") onJson(yield* reader.next());
      else if (character === '"') isInString = false;
    } else if (character === '"') isInString = true;
    else if (character === "{" || character === "[") open.push(character === "{" ? "}" : "]");
    else if (character === "}" || character === "]") {
      if (open.pop() !== character) return false;
    }
    if (!isInString && open.length === 0) return true;
  }
}

/** The arguments of a function, by its schema. Properties that the schema does not name are not generated. */
export function argumentsGrammar(
  { parameters, strict }: ToolFunction,
  param: string,
): GrammarSpec {
  if (parameters === undefined || strict === false) return { kind: "json_object" };
  const isListed = parameters["properties"] !== undefined;
  const schema = { type: "object", ...isListed && { additionalProperties: false }, ...parameters };
  return { kind: "json_schema", schema, param };
}

/** A call in JSON, with the given key for its arguments. */
export function jsonCallGrammar(
  called: ToolFunction,
  { param, key = "arguments" }: { readonly param: string; readonly key?: string },
): GrammarSpec {
  const head = `{"name": ${JSON.stringify(called.name)}, ${JSON.stringify(key)}: `;
  return {
    kind: "sequence",
    items: [
      { kind: "text", text: head },
      argumentsGrammar(called, param),
      { kind: "text", text: "}" },
    ],
  };
}
