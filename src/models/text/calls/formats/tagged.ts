/**
 * Formats in which each argument has its own tags.
 *
 * @module
 */
import { type GrammarSpec, sequence, text } from "../../../../engine/grammar/grammar.ts";
import type { ToolFunction } from "../../../task.ts";
import { type CallFormat, type CallParsing, markedFormat } from "../call_format.ts";
import { escape } from "../json_call.ts";
import { findTypes, isText, listParameters, rawToJson } from "../parameters.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<tool_call>", "</tool_call>"];

/** The opening and closing tag of a part. */
type Tags = readonly [open: string, close: string];

/** What distinguishes one such format from another. */
interface TaggedFormat {
  readonly name: string;
  /** The tags around the function's name. Without a closing tag, the first key or the end of the call ends the name. */
  readonly called: Tags;
  readonly key: Tags;
  readonly value: Tags;
  /** Whether values have line breaks around them that are markup. */
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
export const GLM = taggedFormat({
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
export const QWEN_XML = taggedFormat({
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

function taggedFormat(format: TaggedFormat): CallFormat {
  const { name, matches, markers = [], called, key, value, isInLines, end } = format;
  const lineBreak = isInLines ? "\n" : "";
  const close = `${lineBreak}${END}`;
  return markedFormat({
    ...{ name, matches, close },
    starts: [START],
    end: END,
    markers: [START, END, ...markers],
    readCalls: (parsing) => readCall(parsing, format),
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

function* readCall(parsing: CallParsing, format: TaggedFormat): Parsing<boolean> {
  const { reader, sink, functions } = parsing;
  const { called: [before, after], key, end } = format;
  yield* reader.skipSpace();
  if (!(yield* reader.take(before))) return false;
  yield* reader.skipSpace();
  const name = yield* reader.takeRun(/[^<>\s]/);
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
  const isWhole = end === undefined ? !reader.isCutShort : yield* reader.take(end);
  if (isWhole) sink.write("}");
  sink.end();
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
  { format: { key, value, isInLines }, called, isFirst }: {
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
  const endings = [...isInLines ? [`\n${value[1]}`] : [], value[1]];
  const types = findTypes(called, name);
  if (isText(types)) {
    sink.write('"');
    const found = yield* reader.until(endings, (chunk) => sink.write(escape(chunk)));
    if (found === undefined) return undefined;
    sink.write('"');
    return true;
  }
  let raw = "";
  const found = yield* reader.until(endings, (chunk) => raw += chunk);
  if (found === undefined) return undefined;
  sink.write(rawToJson(raw, types));
  return true;
}
