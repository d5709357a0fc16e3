import type { CallFormat, CallParsing } from "../call_format.ts";
import { readMarked } from "../marked_calls.ts";
import { pythonCallGrammar, readPythonCalls, writePythonCall } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<|tool_call_start|>", "<|tool_call_end|>"];
const FENCE = "```";

/**
 * A block of Python, a call a line, between `<|tool_call_start|>` and `<|tool_call_end|>`: MiniCPM 3 and 4.
 *
 * @see https://huggingface.co/openbmb/MiniCPM3-4B
 */
export const MINICPM: CallFormat = {
  name: "minicpm",
  matches: (template) => template.includes(START) && template.includes(`${FENCE}python`),
  markers: [START, END],
  parse: (parsing) => readMarked(parsing, { starts: [START], end: END, readCalls }),
  writeCall: writePythonCall,
  markup: {
    trigger: START,
    open: `\n${FENCE}python\n`,
    separator: "\n",
    close: `\n${FENCE}\n${END}`,
    call: pythonCallGrammar,
  },
};

function* readCalls(parsing: CallParsing): Parsing<boolean> {
  const { reader } = parsing;
  yield* reader.skipSpace();
  if (yield* reader.take(FENCE)) yield* reader.take("python");
  return yield* readPythonCalls(parsing);
}
