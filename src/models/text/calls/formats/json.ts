/**
 * Formats whose calls are JSON: `{"name": "f", "arguments": {…}}`, single or in an array, between markers.
 *
 * @module
 */
import { type CallParsing, type MarkedFormat, markedFormat } from "../call_format.ts";
import { jsonCallGrammar, readJsonCalls } from "../json_call.ts";
import { readPythonCalls } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";

const [START, END] = ["<tool_call>", "</tool_call>"];
const PIPED = "<|tool_call|>";

const TAGGED: MarkedFormat = {
  name: "hermes",
  matches: (template) => template.includes(START),
  starts: [START],
  end: END,
  readCalls: readJsonCalls,
  open: "\n",
  separator: `\n${END}\n${START}\n`,
  close: `\n${END}`,
  call: jsonCallGrammar,
};

/**
 * `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`: Hermes 2 Pro, Qwen 2.5 and 3, SmolLM3, Granite 4.
 *
 * @see https://github.com/NousResearch/Hermes-Function-Calling
 */
export const HERMES = markedFormat(TAGGED);

/**
 * Calls as in the Hermes format; and `<code>f(city="Paris")</code>` if the template was given `python_tools`: SmolLM3.
 *
 * @see https://huggingface.co/HuggingFaceTB/SmolLM3-3B
 */
export const SMOLLM3 = markedFormat({
  ...TAGGED,
  name: "smollm3",
  matches: (template) => template.includes("xml_tools") && template.includes("python_tools"),
  starts: [START, "<code>"],
  end: "",
  markers: [START, END],
  *readCalls(parsing) {
    const isCalled = (name: string) => parsing.functions.has(name);
    return ((yield* readJsonCalls(parsing)) || (yield* readPythonCalls(parsing, isCalled))) &&
      (yield* skipEnds(parsing, [END, "</code>"]));
  },
});

/** A list of calls. */
const LISTED = {
  readCalls: readJsonCalls,
  end: "",
  open: "[",
  separator: ", ",
  close: "]",
  call: jsonCallGrammar,
};

/**
 * `<|tool_call|>[{"name": "f", "arguments": {…}}]`: Granite 3.
 *
 * @see https://www.ibm.com/granite/docs/models/granite
 */
export const GRANITE = markedFormat({
  ...LISTED,
  name: "granite",
  matches: (template) => template.includes(PIPED) && !template.includes("<|/tool|>"),
  // Granite 3.1 writes this string instead of the token.
  starts: [PIPED, START],
});

/**
 * `functools[{"name": "f", "arguments": {…}}]`, or the same list between `<|tool_call|>` and `<|/tool_call|>`:
 * Phi-4-mini.
 *
 * @see https://huggingface.co/microsoft/Phi-4-mini-instruct
 */
export const PHI = markedFormat({
  ...LISTED,
  name: "phi",
  matches: (template) => template.includes("<|/tool|>") || template.includes("functools["),
  starts: ["functools", PIPED],
  markers: [PIPED, "<|/tool_call|>"],
  *readCalls(parsing) {
    return (yield* readJsonCalls(parsing)) && (yield* skipEnds(parsing, ["<|/tool_call|>"]));
  },
});

/** Skips a closing marker if there is one: only some variants of a format have it. */
function* skipEnds({ reader }: CallParsing, ends: readonly string[]): Parsing<true> {
  yield* reader.skipSpace();
  for (const end of ends) if (yield* reader.take(end)) break;
  return true;
}
