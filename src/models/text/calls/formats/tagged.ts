/**
 * Formats with tags within the arguments: around each key and value (GLM, Qwen), or around each string (Gemma).
 *
 * @module
 */
import { type GrammarSpec, sequence, text } from "../../../../engine/grammar/grammar.ts";
import type { ToolFunction } from "../../../task.ts";
import {
  type CallFormat,
  type CallParsing,
  makeMarkedFormat,
  MAX_NESTING,
  type Parsing,
  type TextReader,
} from "../call_format.ts";
import { escape, readString } from "../json_call.ts";
import {
  findTypes,
  isText,
  listParameterNames,
  listParameters,
  makeListGrammar,
} from "../parameters.ts";
import { rawToJson } from "./python.ts";

const [START, END] = ["<tool_call>", "</tool_call>"];

/** An opening and a closing tag. */
type Tags = readonly [open: string, close: string];

/** The properties of a format with tags around keys and values. */
interface TaggedFormat {
  readonly name: string;
  /** The tags around the function's name. If they are empty, the first key or the end of the call ends the name. */
  readonly called: Tags;
  /** The tags around a parameter's name. */
  readonly key: Tags;
  /** The tags around an argument. */
  readonly value: Tags;
  /** Whether the line breaks around values are markup. */
  readonly isInLines: boolean;
  /** Text after the last argument; the end of the call if absent. */
  readonly end?: string;
  readonly matches: (template: string) => boolean;
  /** Tags that are special tokens. */
  readonly markers?: readonly string[];
}

/**
 * GLM-4.5 and later: `<tool_call>f<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>`.
 *
 * @see https://huggingface.co/zai-org/GLM-4.5
 */
export const GLM = makeTaggedFormat({
  name: "glm",
  matches: (template) => template.includes("<arg_key>"),
  called: ["", ""],
  key: ["<arg_key>", "</arg_key>"],
  value: ["<arg_value>", "</arg_value>"],
  markers: ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
  isInLines: false,
});

/**
 * Qwen3-Coder, Qwen3.5: `<tool_call><function=f><parameter=city>Paris</parameter></function></tool_call>`, each tag on
 * its own line.
 *
 * @see https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct
 */
export const QWEN_XML = makeTaggedFormat({
  name: "qwen_xml",
  matches: (template) => template.includes("<function=") && template.includes("<parameter="),
  called: ["<function=", ">"],
  key: ["<parameter=", ">"],
  value: ["", "</parameter>"],
  isInLines: true,
  end: "</function>",
});

/** Whether a name can be written between tags. */
function isWritable(name: string): boolean {
  return name !== "" && name.trim() === name && !/[<>\n]/.test(name);
}

function makeTaggedFormat(format: TaggedFormat): CallFormat {
  const { name, matches, markers = [], called, key, value, isInLines, end } = format;
  const lineBreak = isInLines ? "\n" : "";
  const close = `${lineBreak}${END}`;
  return makeMarkedFormat({
    ...{ name, matches, close },
    // Qwen3-Coder sometimes omits the first tag.
    starts: called[0] === "" ? [START] : [START, called[0]],
    end: END,
    markers: [START, END, ...markers],
    readCalls: (parsing, start) => readCall(parsing, format, start),
    open: lineBreak,
    separator: `${close}\n${START}${lineBreak}`,
    call: (function_, param) =>
      sequence(
        text(`${called[0]}${function_.name}${called[1]}\n`),
        ...listParameters(function_, { param, isWritable }).map((parameter): GrammarSpec => {
          const { isRequired, grammar, types } = parameter;
          const ending = `${lineBreak}${value[1]}`;
          const item = sequence(
            text(`${key[0]}${parameter.name}${key[1]}\n${value[0]}`),
            ...isText(types) ? [parameter.textUntil(ending, value[1])] : [grammar, text(ending)],
            text("\n"),
          );
          return isRequired ? item : { kind: "repeat", item, min: 0, max: 1 };
        }),
        text(end ?? ""),
      ),
  });
}

function* readCall(
  parsing: CallParsing,
  format: TaggedFormat,
  start: string,
): Parsing<boolean> {
  const { reader, sink, functions } = parsing;
  const { called: [before, after], key, end } = format;
  yield* reader.skipSpace();
  if (start === START && !(yield* reader.take(before))) return false;
  yield* reader.skipSpace();
  const name = yield* reader.takeRun(/[^<>\s]/);
  if (start !== START && !functions.has(name)) return false;
  yield* reader.skipSpace();
  if (name === "" || !(yield* reader.take(after))) return false;
  if (after === "" && !(yield* sees(key[0])) && !(yield* sees(END))) return false;
  sink.begin(name);
  sink.write("{");
  for (let isFirst = true;; isFirst = false) {
    yield* reader.skipSpace();
    if (!(yield* reader.take(key[0]))) break;
    const called = functions.get(name);
    const isRead = yield* readArgument(parsing, { format, called, isFirst });
    if (isRead === undefined) return sink.end(), true;
    if (!isRead) break;
  }
  const isWhole = end === undefined
    ? !reader.isCutShort
    : (yield* reader.take(end)) || (yield* sees(END));
  if (isWhole) sink.write("}");
  sink.end();
  if (start !== START) {
    const { position } = reader;
    yield* reader.skipSpace();
    if (!(yield* reader.take(END))) reader.moveTo(position);
  }
  return true;

  function* sees(text: string): Parsing<boolean> {
    const { position } = reader;
    const isNext = yield* reader.take(text);
    reader.moveTo(position);
    return isNext;
  }
}

/**
 * Parses the rest of a key, after its opening tag, and the value.
 *
 * @returns whether both are complete; `undefined` if the text ends within the value.
 */
function* readArgument(
  { reader, sink }: CallParsing,
  { format: { key, value, isInLines, end }, called, isFirst }: {
    readonly format: TaggedFormat;
    readonly called: ToolFunction | undefined;
    readonly isFirst: boolean;
  },
): Parsing<boolean | undefined> {
  const name = (yield* reader.takeRun(/[^<>\n]/)).trim();
  if (name === "" || !(yield* reader.take(key[1]))) return false;
  if (isInLines) yield* reader.take("\n");
  else yield* reader.skipSpace();
  if (!(yield* reader.take(value[0]))) return false;
  sink.write(`${isFirst ? "" : ", "}${JSON.stringify(name)}: `);
  const endings = [value[1]];
  if (isInLines) {
    endings.push(`\n${value[1]}`, `\n${end}\n${END}`);
    // Models sometimes omit a closing tag.
    const names = new Set(listParameterNames(called));
    for (const each of names) endings.push(`\n${key[0]}${each}${key[1]}\n`);
  }
  const types = findTypes(called, name);
  if (isText(types)) {
    sink.write('"');
    const isWhole = yield* readTo((chunk) => sink.write(escape(chunk)));
    if (isWhole) sink.write('"');
    return isWhole;
  }
  let raw = "";
  const isWhole = yield* readTo((chunk) => raw += chunk);
  if (isWhole) sink.write(rawToJson(raw, types));
  return isWhole;

  function* readTo(onText: (text: string) => void): Parsing<true | undefined> {
    const found = yield* reader.until(endings, onText);
    if (found === undefined) return undefined;
    if (!found.endsWith(value[1])) reader.moveTo(reader.position - found.length);
    return true;
  }
}

/** The markers of a generation of Gemma. */
interface Marks {
  readonly start: string;
  readonly end: string;
  /** The quotation mark around strings. */
  readonly quote: string;
}

/**
 * FunctionGemma: `<start_function_call>call:f{city:<escape>Paris<escape>}<end_function_call>`.
 *
 * @see https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
 */
export const FUNCTION_GEMMA = makeGemmaFormat("function_gemma", {
  start: "<start_function_call>",
  end: "<end_function_call>",
  quote: "<escape>",
});

/** Gemma 4: `<|tool_call>call:f{city:<|"|>Paris<|"|>}<tool_call|>`. */
export const GEMMA = makeGemmaFormat("gemma", {
  start: "<|tool_call>",
  end: "<tool_call|>",
  quote: '<|"|>',
});

/** Keys that are written without quotation marks. */
const PLAIN_KEY = /^[^\s:{},"<]+$/;

function makeGemmaFormat(name: string, marks: Marks): CallFormat {
  const { start, end, quote } = marks;
  return makeMarkedFormat({
    ...{ name, end },
    matches: (template) => template.includes(start),
    starts: [start],
    markers: [start, end, quote],
    readCalls: (parsing) => readGemmaCall(parsing, quote),
    open: "",
    separator: `${end}${start}`,
    close: end,
    call: (called, param) => makeGemmaCallGrammar(called, { param, quote }),
  });
}

function makeGemmaCallGrammar(
  called: ToolFunction,
  { param, quote }: { readonly param: string; readonly quote: string },
): GrammarSpec {
  const named = listParameters(called, {
    param,
    isWritable: (name) => name !== "" && !name.includes(quote),
  }).map((parameter) => {
    const { name, isRequired, grammar, types } = parameter;
    const key = PLAIN_KEY.test(name) ? name : `${quote}${name}${quote}`;
    const field = isText(types)
      ? sequence(text(`${key}:${quote}`), parameter.textUntil(quote, quote))
      : sequence(text(`${key}:`), grammar);
    return { isRequired, grammar: field };
  });
  return sequence(text(`call:${called.name}{`), makeListGrammar(named, ","), text("}"));
}

function* readGemmaCall({ reader, sink }: CallParsing, quote: string): Parsing<boolean> {
  yield* reader.skipSpace();
  if (!(yield* reader.take("call:"))) return false;
  const name = yield* reader.takeRun(/[\w.:/-]/);
  if (name === "" || (yield* reader.peek()) !== "{") return false;
  sink.begin(name);
  yield* readGemmaFields(reader, { onJson: sink.write, quote, depth: 0 });
  sink.end();
  return true;
}

interface ValueOptions {
  readonly onJson: (json: string) => void;
  readonly quote: string;
  /** Number of objects and lists around the value. */
  readonly depth: number;
}

/**
 * Parses an object whose keys usually have no quotation marks.
 *
 * @returns whether it is complete.
 */
function* readGemmaFields(reader: TextReader, options: ValueOptions): Parsing<boolean> {
  const { onJson, quote } = options;
  yield* reader.take("{");
  onJson("{");
  const isWhole = yield* reader.takeItems("}", function* (isFirst) {
    const key = (yield* reader.peek()) === '"'
      ? (yield* readString(reader)) ?? ""
      : (yield* reader.take(quote))
      ? yield* readQuoted(reader, quote)
      : yield* reader.takeRun(/[^\s:{},]/);
    yield* reader.skipSpace();
    if (!key || !(yield* reader.take(":"))) return false;
    onJson(`${isFirst ? "" : ", "}${JSON.stringify(key)}: `);
    yield* reader.skipSpace();
    return yield* readGemmaValue(reader, options);
  });
  if (isWhole) onJson("}");
  return isWhole;
}

function* readGemmaValue(reader: TextReader, options: ValueOptions): Parsing<boolean> {
  const { onJson, quote } = options;
  if (yield* reader.take(quote)) {
    onJson('"');
    const found = yield* reader.until([quote], (chunk) => onJson(escape(chunk)));
    if (found === undefined) return false;
    onJson('"');
    return true;
  }
  const first = yield* reader.peek();
  const inner = { ...options, depth: options.depth + 1 };
  if (/[[{]/.test(first) && inner.depth > MAX_NESTING) return false;
  if (first === "{") return yield* readGemmaFields(reader, inner);
  if (first === '"') {
    const value = yield* readString(reader);
    if (value !== undefined) onJson(JSON.stringify(value));
    return value !== undefined;
  }
  if (first === "[") return yield* readGemmaList(reader, inner);
  const word = (yield* reader.takeRun(/[^,{}[\]\n]/)).trim();
  // A word at the end of a truncated text may be incomplete.
  if (word === "" || reader.isCutShort) return false;
  const isJson = /^(true|false|null|-?(0|[1-9]\d*)(\.\d*)?(e[-+]?\d+)?)$/i.test(word);
  onJson(isJson ? word.toLowerCase().replace(/\.(?!\d)/, ".0") : JSON.stringify(word));
  return true;
}

function* readGemmaList(reader: TextReader, options: ValueOptions): Parsing<boolean> {
  yield* reader.take("[");
  options.onJson("[");
  const isWhole = yield* reader.takeItems("]", function* (isFirst) {
    if (!isFirst) options.onJson(", ");
    return yield* readGemmaValue(reader, options);
  });
  if (isWhole) options.onJson("]");
  return isWhole;
}

function* readQuoted(reader: TextReader, quote: string): Parsing<string> {
  let text = "";
  yield* reader.until([quote], (chunk) => text += chunk);
  return text;
}
