import { type GrammarSpec, sequence, text } from "../../../../engine/grammar/grammar.ts";
import type { ToolFunction } from "../../../task.ts";
import { type CallFormat, type CallParsing, markedFormat } from "../call_format.ts";
import { escape, readString } from "../json_call.ts";
import { isText, listGrammar, listParameters } from "../parameters.ts";
import type { Parsing, TextReader } from "../text_reader.ts";

/** What differs between the generations of Gemma. */
interface Marks {
  readonly start: string;
  readonly end: string;
  /** The quotation mark around strings. */
  readonly quote: string;
}

/**
 * `<start_function_call>call:f{city:<escape>Paris<escape>}<end_function_call>`: FunctionGemma.
 *
 * @see https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
 */
export const FUNCTION_GEMMA = gemmaFormat("function_gemma", {
  start: "<start_function_call>",
  end: "<end_function_call>",
  quote: "<escape>",
});

/** `<|tool_call>call:f{city:<|"|>Paris<|"|>}<tool_call|>`: Gemma 4. */
export const GEMMA = gemmaFormat("gemma", {
  start: "<|tool_call>",
  end: "<tool_call|>",
  quote: '<|"|>',
});

/** Keys that need no quotation marks. */
const PLAIN_KEY = /^[^\s:{},"<]+$/;

function gemmaFormat(name: string, marks: Marks): CallFormat {
  const { start, end, quote } = marks;
  return markedFormat({
    ...{ name, end },
    matches: (template) => template.includes(start),
    starts: [start],
    markers: [start, end, quote],
    readCalls: (parsing) => readCall(parsing, quote),
    open: "",
    separator: `${end}${start}`,
    close: end,
    call: (called, param) => callGrammar(called, { param, quote }),
  });
}

function callGrammar(
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
  return sequence(text(`call:${called.name}{`), listGrammar(named, ","), text("}"));
}

function* readCall({ reader, sink }: CallParsing, quote: string): Parsing<boolean> {
  yield* reader.skipSpace();
  if (!(yield* reader.take("call:"))) return false;
  const name = yield* reader.takeRun(/[\w.:/-]/);
  if (name === "" || (yield* reader.peek()) !== "{") return false;
  sink.begin(name);
  yield* readFields(reader, { onJson: sink.write, quote });
  sink.end();
  return true;
}

interface ValueOptions {
  readonly onJson: (json: string) => void;
  readonly quote: string;
}

/**
 * Parses an object, whose keys have no quotation marks.
 *
 * @returns whether it is complete.
 */
function* readFields(reader: TextReader, options: ValueOptions): Parsing<boolean> {
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
  if (first === "{") return yield* readFields(reader, options);
  if (first === '"') {
    const value = yield* readString(reader);
    if (value !== undefined) onJson(JSON.stringify(value));
    return value !== undefined;
  }
  if (first === "[") return yield* readList(reader, options);
  const word = (yield* reader.takeRun(/[^,{}[\]\n]/)).trim();
  // A word that was cut might have gone on.
  if (word === "" || reader.isCutShort) return false;
  const isJson = /^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?(e[-+]?\d+)?)$/i.test(word);
  onJson(isJson ? word.toLowerCase() : JSON.stringify(word));
  return true;
}

function* readList(reader: TextReader, options: ValueOptions): Parsing<boolean> {
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
