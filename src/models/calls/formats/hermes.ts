import type { CallFormat } from "../call_format.ts";
import { jsonCallGrammar, readJsonCalls } from "../json_call.ts";
import { readMarked } from "../marked_calls.ts";

const [START, END] = ["<tool_call>", "</tool_call>"];

/**
 * `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`: Hermes 2 Pro, Qwen 2.5 and 3, SmolLM3, Granite 4.
 *
 * @see https://github.com/NousResearch/Hermes-Function-Calling
 */
export const HERMES: CallFormat = {
  name: "hermes",
  matches: (template) => template.includes(START),
  markers: [START, END],
  parse: (parsing) => readMarked(parsing, { starts: [START], end: END, readCalls: readJsonCalls }),
  markup: {
    trigger: START,
    open: "\n",
    separator: `\n${END}\n${START}\n`,
    close: `\n${END}`,
    call: (called, param) => jsonCallGrammar(called, { param }),
  },
};
