/**
 * Formats whose calls are Python: `f(city="Paris")`, between markers.
 *
 * @module
 */
import { readJsonCalls } from "../json_call.ts";
import { type MarkedForm, markedFormat } from "../marked_calls.ts";
import { pythonCallGrammar, readPythonCalls, writePythonCall } from "../python_call.ts";

const [START, END] = ["<|tool_call_start|>", "<|tool_call_end|>"];
const FENCE = "```";

/**
 * `<|tool_call_start|>[f(city="Paris")]<|tool_call_end|>`: LFM2.
 *
 * @see https://docs.liquid.ai/lfm/key-concepts/tool-use
 */
const LISTED: MarkedForm = {
  name: "lfm2",
  matches: (template) => template.includes("<|tool_list_start|>") || template.includes(START),
  starts: [START],
  end: END,
  /** Reads calls in Python or, where a system message asked for that, in JSON. */
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
 * A block of Python, a call a line, between the same markers: MiniCPM 3 and 4.
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
