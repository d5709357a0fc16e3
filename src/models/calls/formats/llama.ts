import type { CallFormat, CallParsing } from "../call_format.ts";
import { argumentsCallGrammar, readJsonCalls } from "../json_call.ts";
import { readPythonCalls } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";

const PYTHON_TAG = "<|python_tag|>";

/**
 * `{"name": "f", "parameters": {…}}` as the whole answer, or behind `<|python_tag|>`, several between semicolons;
 * `<|python_tag|>brave_search.call(query="…")`; and `[f(city="Paris")]`: Llama 3.1 to 3.3, and 4.
 *
 * Where no tag says that it is a call, it must be one of a function that there is, at the beginning.
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
      return argumentsCallGrammar(called, { param, head, tail: "}" });
    },
  },
};

function* read(parsing: CallParsing): Parsing {
  const { reader, sink, functions } = parsing;
  const start = reader.position;
  yield* reader.skipSpace();
  const hasTag = yield* reader.take(PYTHON_TAG);
  const isCalled = hasTag ? () => true : (name: string) => functions.has(name);
  const dotted = (name: string) => hasTag || functions.has(name);
  let hasCalls = false;
  for (;;) {
    if (hasTag) yield* reader.take(PYTHON_TAG);
    const found = (yield* readJsonCalls(parsing, isCalled)) ||
      (yield* readPythonCalls(builtIn(parsing), dotted));
    if (!found) break;
    hasCalls = true;
    yield* reader.skipSpace();
    const position = reader.position;
    const goesOn = (yield* reader.take(";")) || (yield* reader.take(PYTHON_TAG));
    yield* reader.skipSpace();
    if (!goesOn && (yield* reader.peek()) !== "{") {
      reader.moveTo(position);
      break;
    }
  }
  if (!hasCalls) reader.moveTo(start);
  while ((yield* reader.until([PYTHON_TAG], sink.text)) !== undefined);
}

/** Its own tools are methods: `brave_search.call(…)` calls `brave_search`. */
function builtIn(parsing: CallParsing): CallParsing {
  const { sink } = parsing;
  return {
    ...parsing,
    sink: { ...sink, begin: (name) => sink.begin(name.replace(/\.call$/, "")) },
  };
}
