import type { CallFormat, CallParsing } from "../call_format.ts";
import { readMarked } from "../marked_calls.ts";
import { readJsonCalls } from "../json_call.ts";
import { readPythonCalls } from "../python_call.ts";
import type { Parsing } from "../text_reader.ts";
import { HERMES } from "./hermes.ts";

const [CODE, CODE_END] = ["<code>", "</code>"];
const [START, END] = ["<tool_call>", "</tool_call>"];

/**
 * As Hermes writes them, and `<code>f(city="Paris")</code>` where the template was given `python_tools`: SmolLM3.
 *
 * @see https://huggingface.co/HuggingFaceTB/SmolLM3-3B
 */
export const SMOLLM3: CallFormat = {
  ...HERMES,
  name: "smollm3",
  matches: (template) => template.includes("xml_tools") && template.includes("python_tools"),
  parse: (parsing) => readMarked(parsing, { starts: [START, CODE], end: "", readCalls }),
};

function* readCalls(parsing: CallParsing): Parsing<boolean> {
  const { reader, functions } = parsing;
  const isCalled = (name: string) => functions.has(name);
  const found = (yield* readJsonCalls(parsing)) || (yield* readPythonCalls(parsing, isCalled));
  if (!found) return false;
  yield* reader.skipSpace();
  if (!(yield* reader.take(END))) yield* reader.take(CODE_END);
  return true;
}
