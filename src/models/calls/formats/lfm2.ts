import type { CallFormat, CallParsing } from "../call_format.ts";
import { readJsonCalls } from "../json_call.ts";
import { readMarked } from "../marked_calls.ts";
import { pythonCallGrammar, readPythonCalls, writePythonCall } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<|tool_call_start|>", "<|tool_call_end|>"];

/**
 * `<|tool_call_start|>[f(city="Paris")]<|tool_call_end|>`: LFM2.
 *
 * @see https://docs.liquid.ai/lfm/key-concepts/tool-use
 */
export const LFM2: CallFormat = {
  name: "lfm2",
  matches: (template) => template.includes("<|tool_list_start|>") || template.includes(START),
  markers: [START, END],
  parse: (parsing) => readMarked(parsing, { starts: [START], end: END, readCalls }),
  writeCall: writePythonCall,
  markup: {
    trigger: START,
    open: "[",
    separator: ", ",
    close: `]${END}`,
    call: pythonCallGrammar,
  },
};

/** As Python, or where a system message asked for that, as JSON. */
function* readCalls(parsing: CallParsing): Parsing<boolean> {
  return (yield* readPythonCalls(parsing)) || (yield* readJsonCalls(parsing));
}
