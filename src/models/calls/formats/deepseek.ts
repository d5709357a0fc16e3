import type { GrammarSpec } from "../../../grammar/spec.ts";
import type { ToolFunction } from "../../task.ts";
import type { CallFormat, CallParsing } from "../call_format.ts";
import { argumentsGrammar, readArguments } from "../json_call.ts";
import { readMarked } from "../marked_calls.ts";
import type { Parsing } from "../text_reader.ts";

const [CALLS, CALLS_END] = ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"];
const [CALL, CALL_END] = ["<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"];
const SEPARATOR = "<｜tool▁sep｜>";
const FENCE = "```";

/**
 * Between DeepSeek's markers `function`, a separator, the name, and the arguments in a block of JSON: V3 and R1.
 *
 * @see https://huggingface.co/deepseek-ai/DeepSeek-V3
 */
export const DEEPSEEK: CallFormat = {
  name: "deepseek",
  matches: (template) => template.includes(CALL),
  markers: [CALLS, CALLS_END, CALL, CALL_END, SEPARATOR],
  parse: (parsing) => readMarked(parsing, { starts: [CALLS], end: CALLS_END, readCalls }),
  markup: {
    trigger: CALLS,
    open: "",
    separator: "\n",
    close: CALLS_END,
    call: (called, param) =>
      wrap(`function${SEPARATOR}${called.name}\n${FENCE}json\n`, {
        called,
        param,
        tail: `\n${FENCE}`,
      }),
  },
};

/** Between the same markers the name, a separator and the arguments: V3.1. */
export const DEEPSEEK_V31: CallFormat = {
  ...DEEPSEEK,
  name: "deepseek_v31",
  matches: (template) => template.includes(CALL) && !template.includes(`${FENCE}json`),
  markup: {
    ...DEEPSEEK.markup,
    separator: "",
    call: (called, param) => wrap(`${called.name}${SEPARATOR}`, { called, param, tail: "" }),
  },
};

function wrap(
  head: string,
  { called, param, tail }: {
    readonly called: ToolFunction;
    readonly param: string;
    readonly tail: string;
  },
): GrammarSpec {
  return {
    kind: "sequence",
    items: [
      { kind: "text", text: `${CALL}${head}` },
      argumentsGrammar(called, param),
      { kind: "text", text: `${tail}${CALL_END}` },
    ],
  };
}

function* readCalls(parsing: CallParsing): Parsing<boolean> {
  const { reader } = parsing;
  let hasCalls = false;
  for (;;) {
    yield* reader.skipSpace();
    if (!(yield* reader.take(CALL)) || !(yield* readCall(parsing))) return hasCalls;
    hasCalls = true;
  }
}

function* readCall({ reader, sink }: CallParsing): Parsing<boolean> {
  let name = yield* reader.takeRun(/[\w.:/-]/);
  if (!(yield* reader.take(SEPARATOR))) return false;
  yield* reader.skipSpace();
  if ((yield* reader.peek()) !== "{") {
    name = yield* reader.takeRun(/[\w.:/-]/);
    yield* reader.skipSpace();
    if (yield* reader.take(FENCE)) yield* reader.take("json");
    yield* reader.skipSpace();
  }
  if (name === "" || (yield* reader.peek()) !== "{") return false;
  sink.begin(name);
  yield* readArguments(reader, sink.write);
  sink.end();
  yield* reader.skipSpace();
  yield* reader.take(FENCE);
  yield* reader.skipSpace();
  yield* reader.take(CALL_END);
  return true;
}
