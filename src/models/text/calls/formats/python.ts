/**
 * Formats whose calls are Python between markers: `f(city="Paris")`.
 *
 * @module
 */
import { argumentsCallGrammar, readJsonCalls } from "../json_call.ts";
import {
  type CallFormat,
  type CallParsing,
  type MarkedFormat,
  markedFormat,
} from "../call_format.ts";
import { pythonCallGrammar, readPythonCalls, writePythonCall } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<|tool_call_start|>", "<|tool_call_end|>"];
const FENCE = "```";

/**
 * `<|tool_call_start|>[f(city="Paris")]<|tool_call_end|>`: LFM2.
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
  call: pythonCallGrammar,
};
export const LFM2 = markedFormat(LISTED);

/**
 * MiniCPM 3 and 4: a block of Python, with one call per line, between the same markers.
 *
 * @see https://huggingface.co/openbmb/MiniCPM3-4B
 */
export const MINICPM = markedFormat({
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
 * The keys that may stand before name and arguments in a call without a tag. Any other key shows that the answer is
 * plain JSON.
 */
const OTHER_KEYS: ReadonlySet<string> = new Set(["type", "id"]);

/**
 * Llama 3.1 to 3.3, and 4: `{"name": "f", "parameters": {…}}` as the whole answer or after `<|python_tag|>`, several
 * separated by semicolons; `<|python_tag|>brave_search.call(query="…")`; and `[f(city="Paris")]`.
 *
 * Without the tag, only a call at the beginning of the answer to an existing function counts.
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
  const { reader, sink } = parsing;
  const start = reader.position;
  yield* reader.skipSpace();
  const hasCalls = yield* readRun(parsing, false);
  // A plain word is text, even if it could be the beginning of a name.
  const isWord = !hasCalls && /^\w/.test(reader.rest);
  if (reader.isCutShort && !isWord) return;
  if (!hasCalls) reader.moveTo(start);
  while ((yield* reader.until([PYTHON_TAG], sink.text)) !== undefined) {
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
      (yield* readPythonCalls(builtIn(parsing), hasTag ? () => true : isNamed));
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

/** Llama's built-in tools are methods: `brave_search.call(…)` calls `brave_search`. */
function builtIn(parsing: CallParsing): CallParsing {
  const { sink } = parsing;
  return {
    ...parsing,
    sink: { ...sink, begin: (name) => sink.begin(name.replace(/\.call$/, "")) },
  };
}
