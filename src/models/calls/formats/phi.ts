import type { CallFormat, CallParsing } from "../call_format.ts";
import { jsonCallGrammar, readJsonCalls } from "../json_call.ts";
import { readMarked } from "../marked_calls.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<|tool_call|>", "<|/tool_call|>"];

/**
 * `functools[{"name": "f", "arguments": {…}}]`, or the same list between `<|tool_call|>` and `<|/tool_call|>`:
 * Phi-4-mini.
 *
 * @see https://huggingface.co/microsoft/Phi-4-mini-instruct
 */
export const PHI: CallFormat = {
  name: "phi",
  matches: (template) => template.includes("<|/tool|>") || template.includes("functools["),
  markers: [START, END],
  parse,
  markup: {
    trigger: "functools",
    open: "[",
    separator: ", ",
    close: "]",
    call: (called, param) => jsonCallGrammar(called, { param }),
  },
};

function* parse(parsing: CallParsing): Parsing {
  yield* readMarked(parsing, { starts: ["functools", START], end: "", readCalls });
}

function* readCalls(parsing: CallParsing): Parsing<boolean> {
  const { reader } = parsing;
  if (!(yield* readJsonCalls(parsing))) return false;
  yield* reader.skipSpace();
  yield* reader.take(END);
  return true;
}
