import type { CallFormat } from "../call_format.ts";
import { jsonCallGrammar, readJsonCalls } from "../json_call.ts";
import { readMarked } from "../marked_calls.ts";

const START = "<|tool_call|>";

/**
 * `<|tool_call|>[{"name": "f", "arguments": {…}}]`: Granite 3.
 *
 * @see https://www.ibm.com/granite/docs/models/granite
 */
export const GRANITE: CallFormat = {
  name: "granite",
  matches: (template) => template.includes(START) && !template.includes("<|/tool|>"),
  markers: [START],
  // Version 3.1 writes this string instead of the token.
  parse: (parsing) =>
    readMarked(parsing, { starts: [START, "<tool_call>"], end: "", readCalls: readJsonCalls }),
  markup: {
    trigger: START,
    open: "[",
    separator: ", ",
    close: "]",
    call: (called, param) => jsonCallGrammar(called, { param }),
  },
};
