import type { GrammarSpec } from "../../../grammar/spec.ts";
import type { CallFormat, CallParsing } from "../call_format.ts";
import { readMarked } from "../marked_calls.ts";
import { isText, jsonOfRaw, parametersOf, text, typesOf } from "../parameters.ts";
import { escape } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<tool_call>", "</tool_call>"];
const PARAMETER_END = "</parameter>";

/**
 * `<tool_call><function=f><parameter=city>Paris</parameter></function></tool_call>`, a line each: Qwen3-Coder, Qwen3.5.
 *
 * @see https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct
 */
export const QWEN_XML: CallFormat = {
  name: "qwen_xml",
  matches: (template) => template.includes("<function=") && template.includes("<parameter="),
  markers: [START, END],
  parse: (parsing) => readMarked(parsing, { starts: [START], end: END, readCalls: readCall }),
  markup: {
    trigger: START,
    open: "\n",
    separator: `\n${END}\n${START}\n`,
    close: `\n${END}`,
    call: (called, param) => ({
      kind: "sequence",
      items: [
        text(`<function=${called.name}>\n`),
        ...parametersOf(called, param).map((parameter): GrammarSpec => {
          const { name, isRequired, grammar } = parameter;
          const value: readonly GrammarSpec[] = isText(typesOf(called, name))
            ? [{ kind: "until", ending: `\n${PARAMETER_END}\n` }]
            : [grammar, text(`\n${PARAMETER_END}\n`)];
          const items = [text(`<parameter=${name}>\n`), ...value];
          const item = { kind: "sequence", items } as const;
          return isRequired ? item : { kind: "repeat", item, min: 0, max: 1 };
        }),
        text("</function>"),
      ],
    }),
  },
};

function* readCall({ reader, sink, functions }: CallParsing): Parsing<boolean> {
  yield* reader.skipSpace();
  if (!(yield* reader.take("<function="))) return false;
  const name = (yield* reader.takeRun(/[^<>\n]/)).trim();
  if (name === "" || !(yield* reader.take(">"))) return false;
  sink.begin(name);
  sink.write("{");
  const called = functions.get(name);
  for (let number = 0;; number++) {
    yield* reader.skipSpace();
    if (!(yield* reader.take("<parameter="))) break;
    const key = (yield* reader.takeRun(/[^<>\n]/)).trim();
    if (key === "" || !(yield* reader.take(">"))) break;
    yield* reader.take("\n");
    sink.write(`${number > 0 ? ", " : ""}${JSON.stringify(key)}: `);
    const types = typesOf(called, key);
    // The line break before the end is markup.
    const endings = [`\n${PARAMETER_END}`, PARAMETER_END];
    if (isText(types)) {
      sink.write('"');
      const found = yield* reader.until(endings, (piece) => sink.write(escape(piece)));
      if (found === undefined) return sink.end(), true;
      sink.write('"');
    } else {
      let raw = "";
      const found = yield* reader.until(endings, (piece) => raw += piece);
      if (found === undefined) return sink.end(), true;
      sink.write(jsonOfRaw(raw, types));
    }
  }
  if (yield* reader.take("</function>")) sink.write("}");
  sink.end();
  return true;
}
