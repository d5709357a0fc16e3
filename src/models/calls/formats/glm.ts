import type { GrammarSpec } from "../../../grammar/spec.ts";
import type { CallFormat, CallParsing } from "../call_format.ts";
import { readMarked } from "../marked_calls.ts";
import { isText, jsonOfRaw, parametersOf, text, typesOf } from "../parameters.ts";
import { escape } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<tool_call>", "</tool_call>"];
const [KEY, KEY_END] = ["<arg_key>", "</arg_key>"];
const [VALUE, VALUE_END] = ["<arg_value>", "</arg_value>"];

/**
 * `<tool_call>f<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>`: GLM-4.5 and later.
 *
 * @see https://huggingface.co/zai-org/GLM-4.5
 */
export const GLM: CallFormat = {
  name: "glm",
  matches: (template) => template.includes(KEY),
  markers: [START, END, KEY, KEY_END, VALUE, VALUE_END],
  parse: (parsing) => readMarked(parsing, { starts: [START], end: END, readCalls: readCall }),
  markup: {
    trigger: START,
    open: "",
    separator: `${END}\n${START}`,
    close: END,
    call: (called, param) => ({
      kind: "sequence",
      items: [
        text(`${called.name}\n`),
        ...parametersOf(called, param).map((parameter): GrammarSpec => {
          const { name, isRequired, grammar } = parameter;
          const value: readonly GrammarSpec[] = isText(typesOf(called, name))
            ? [{ kind: "until", ending: VALUE_END }]
            : [grammar, text(VALUE_END)];
          const items = [text(`${KEY}${name}${KEY_END}\n${VALUE}`), ...value, text("\n")];
          const item = { kind: "sequence", items } as const;
          return isRequired ? item : { kind: "repeat", item, min: 0, max: 1 };
        }),
      ],
    }),
  },
};

function* readCall({ reader, sink, functions }: CallParsing): Parsing<boolean> {
  yield* reader.skipSpace();
  const name = yield* reader.takeRun(/[\w.:/-]/);
  yield* reader.skipSpace();
  const begins = (yield* reader.take(KEY)) || (yield* reader.take(END));
  if (name === "" || !begins) return false;
  const called = functions.get(name);
  sink.begin(name);
  sink.write("{");
  // The caller reads the end marker again.
  const hasArguments = reader.since(reader.position - KEY.length) === KEY;
  if (!hasArguments) reader.moveTo(reader.position - END.length);
  for (let number = 0; hasArguments; number++) {
    let key = "";
    if ((yield* reader.until([KEY_END], (piece) => key += piece)) === undefined) break;
    yield* reader.skipSpace();
    if (!(yield* reader.take(VALUE))) break;
    sink.write(`${number > 0 ? ", " : ""}${JSON.stringify(key.trim())}: `);
    const types = typesOf(called, key.trim());
    if (isText(types)) {
      sink.write('"');
      const found = yield* reader.until([VALUE_END], (piece) => sink.write(escape(piece)));
      if (found === undefined) return sink.end(), true;
      sink.write('"');
    } else {
      let raw = "";
      const found = yield* reader.until([VALUE_END], (piece) => raw += piece);
      if (found === undefined) return sink.end(), true;
      sink.write(jsonOfRaw(raw, types));
    }
    yield* reader.skipSpace();
    if (!(yield* reader.take(KEY))) break;
  }
  sink.write("}");
  sink.end();
  return true;
}
