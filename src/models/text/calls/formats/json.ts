/**
 * Formats in which models write calls in JSON between markers: one object `{"name": "f", "arguments": {…}}`, an array
 * of them, or a function's name followed by its arguments as JSON.
 *
 * @module
 */
import {
  type CallFormat,
  type CallParsing,
  makeMarkedFormat,
  type MarkedFormat,
  type Parsing,
} from "../call_format.ts";
import {
  makeArgumentsCallGrammar,
  makeJsonCallGrammar,
  readArguments,
  readJsonCalls,
} from "../json_call.ts";
import { readPythonCalls } from "./python.ts";

const [START, END] = ["<tool_call>", "</tool_call>"];
const PIPED = "<|tool_call|>";

const TAGGED: MarkedFormat = {
  name: "hermes",
  matches: (template) => template.includes(START),
  starts: [START],
  end: END,
  readCalls: (parsing: CallParsing) => readJsonCalls(parsing),
  open: "\n",
  separator: `\n${END}\n${START}\n`,
  close: `\n${END}`,
  call: makeJsonCallGrammar,
};

/**
 * Hermes 2 Pro, Qwen 2.5 and 3, Granite 4: `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`.
 *
 * @see https://github.com/NousResearch/Hermes-Function-Calling
 */
export const HERMES = makeMarkedFormat(TAGGED);

/**
 * SmolLM3: calls as in the Hermes format, or `<code>f(city="Paris")</code>` if the template was given `python_tools`.
 *
 * @see https://huggingface.co/HuggingFaceTB/SmolLM3-3B
 */
export const SMOLLM3 = makeMarkedFormat({
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

/** The common part of formats with an array of calls. */
const LISTED = {
  readCalls: (parsing: CallParsing) => readJsonCalls(parsing),
  end: "",
  open: "[",
  separator: ", ",
  close: "]",
  call: makeJsonCallGrammar,
};

/**
 * Granite 3: `<|tool_call|>[{"name": "f", "arguments": {…}}]`.
 *
 * @see https://www.ibm.com/granite/docs/models/granite
 */
export const GRANITE = makeMarkedFormat({
  ...LISTED,
  name: "granite",
  matches: (template) => template.includes(PIPED) && !template.includes("<|/tool|>"),
  // Granite 3.1 writes the string `<tool_call>` instead of the special token.
  starts: [PIPED, START],
});

/**
 * Phi-4-mini: `functools[{"name": "f", "arguments": {…}}]`, or the same array between `<|tool_call|>` and
 * `<|/tool_call|>`.
 *
 * @see https://huggingface.co/microsoft/Phi-4-mini-instruct
 */
export const PHI = makeMarkedFormat({
  ...LISTED,
  name: "phi",
  matches: (template) => template.includes("<|/tool|>") || template.includes("functools["),
  starts: ["functools", PIPED],
  markers: [PIPED, "<|/tool_call|>"],
  *readCalls(parsing) {
    return (yield* readJsonCalls(parsing)) && (yield* skipEnds(parsing, ["<|/tool_call|>"]));
  },
});

/** Skips a closing marker if there is one, as only some variants of a format have it. */
function* skipEnds({ reader }: CallParsing, ends: readonly string[]): Parsing<true> {
  yield* reader.skipSpace();
  for (const end of ends) if (yield* reader.take(end)) break;
  return true;
}

const [CALLS, CALLS_END] = ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"];
const [CALL, CALL_END] = ["<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"];
const SEPARATOR = "<｜tool▁sep｜>";
const FENCE = "```";
const NAME = /[\w.:/-]/;

/**
 * DeepSeek V3 and R1: between markers the word `function`, a separator, the name, and a fenced block with the arguments
 * in JSON.
 *
 * @see https://huggingface.co/deepseek-ai/DeepSeek-V3
 */
export const DEEPSEEK = makeMarkedFormat({
  name: "deepseek",
  matches: (template) => template.includes(CALL),
  starts: [CALLS],
  end: CALLS_END,
  markers: [CALLS, CALLS_END, CALL, CALL_END, SEPARATOR],
  readCalls: readDeepSeek,
  open: "",
  separator: "\n",
  close: CALLS_END,
  call: (called, param) =>
    makeArgumentsCallGrammar(called, {
      param,
      head: `${CALL}function${SEPARATOR}${called.name}\n${FENCE}json\n`,
      tail: `\n${FENCE}${CALL_END}`,
    }),
});

/** DeepSeek V3.1: between the markers of DeepSeek V3, the name, a separator and the arguments in JSON. */
export const DEEPSEEK_V31: CallFormat = {
  ...DEEPSEEK,
  name: "deepseek_v31",
  matches: (template) => template.includes(CALL) && !template.includes(`${FENCE}json`),
  markup: {
    ...DEEPSEEK.markup,
    separator: "",
    call: (called, param) => {
      const head = `${CALL}${called.name}${SEPARATOR}`;
      return makeArgumentsCallGrammar(called, { param, head, tail: CALL_END });
    },
  },
};

/** Parses calls in either of DeepSeek's formats. */
function* readDeepSeek({ reader, sink }: CallParsing): Parsing<boolean> {
  for (let hasCalls = false;; hasCalls = true) {
    yield* reader.skipSpace();
    if (!(yield* reader.take(CALL))) return hasCalls;
    let name = yield* reader.takeRun(NAME);
    if (!(yield* reader.take(SEPARATOR))) return hasCalls;
    yield* reader.skipSpace();
    if ((yield* reader.peek()) !== "{") {
      name = yield* reader.takeRun(NAME);
      yield* reader.skipSpace();
      if (yield* reader.take(FENCE)) yield* reader.take("json");
      yield* reader.skipSpace();
    }
    if (name === "" || (yield* reader.peek()) !== "{") return hasCalls;
    sink.begin(name);
    yield* readArguments(reader, sink.write);
    sink.end();
    yield* reader.skipSpace();
    yield* reader.take(FENCE);
    yield* reader.skipSpace();
    yield* reader.take(CALL_END);
  }
}

const [MESSAGE_START, CHANNEL, MESSAGE] = ["<|start|>", "<|channel|>", "<|message|>"];
const MESSAGE_ENDS = ["<|end|>", "<|call|>", "<|return|>"];

/**
 * gpt-oss: messages in channels, for reasoning (`analysis`), text (`final`) and calls:
 * `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>`.
 *
 * @see https://cookbook.openai.com/articles/openai-harmony
 */
export const HARMONY: CallFormat = {
  name: "harmony",
  matches: (template) => template.includes(CHANNEL) && template.includes(MESSAGE),
  markers: [MESSAGE_START, CHANNEL, MESSAGE, "<|constrain|>", ...MESSAGE_ENDS],
  channels: {
    final: `${CHANNEL}final${MESSAGE}`,
    reasoning: {
      open: `${CHANNEL}analysis${MESSAGE}`,
      close: "<|end|>",
      next: `${MESSAGE_START}assistant`,
    },
  },
  parse: readHarmony,
  markup: {
    before: CHANNEL,
    trigger: "commentary to=functions.",
    open: "",
    separator: `<|call|>${MESSAGE_START}assistant${CHANNEL}commentary to=functions.`,
    close: "",
    call: (called, param) =>
      makeArgumentsCallGrammar(called, {
        param,
        head: `${called.name} <|constrain|>json${MESSAGE}`,
        tail: "",
      }),
  },
};

/** Parses messages. If `isBegun`, the prompt holds the header of the first message. */
function* readHarmony({ reader, sink, isBegun = false }: CallParsing): Parsing {
  const sees = function* (wanted: string) {
    const { position } = reader;
    const isNext = yield* reader.take(wanted);
    reader.moveTo(position);
    return isNext;
  };
  for (let isFirst = true;; isFirst = false) {
    let header = "";
    const hasHeader = !(isFirst && isBegun) &&
      ((yield* sees(CHANNEL)) || (yield* sees(MESSAGE_START)) ||
        (isFirst && (yield* sees(" to="))));
    if (reader.isCutShort) return;
    if (hasHeader) {
      const found = yield* reader.until([MESSAGE], (text) => header += text);
      // A header without a message is markup.
      if (found === undefined) return;
    }
    const name = /\bto=(?:functions\.)?([\w.:/-]+)/.exec(header)?.[1];
    const isThought = /<\|channel\|>\s*analysis/.test(header);
    if (name !== undefined) {
      sink.begin(name);
      yield* reader.skipSpace();
      yield* readArguments(reader, sink.write);
      sink.end();
    }
    const show = name !== undefined
      ? () => {}
      : isThought
      ? (text: string) => sink.think(text)
      : (text: string) => sink.text(text);
    const end = yield* reader.until([...MESSAGE_ENDS, MESSAGE_START, CHANNEL], show);
    if (isThought && name === undefined && end !== undefined) sink.think(undefined);
    if (end === undefined) return;
    if (!MESSAGE_ENDS.includes(end)) reader.moveTo(reader.position - end.length);
  }
}

const [TOOL_CALLS, ARGS, CALL_ID] = ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"];
const ID_LENGTH = 9;
const ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

function makeCallId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_LENGTH));
  return Array.from(bytes, (byte) => ID_LETTERS[byte % ID_LETTERS.length]).join("");
}

const OWN_ID = new RegExp(`^[a-zA-Z0-9]{${ID_LENGTH}}$`);

/** Mistral's templates accept only ids of nine characters, but conversations begun on other servers have other ids. */
function toCallId(id: string): string {
  if (OWN_ID.test(id)) return id;
  // FNV-1a, 64 bits.
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(id)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  const base = BigInt(ID_LETTERS.length);
  return Array.from({ length: ID_LENGTH }, () => {
    const letter = ID_LETTERS[Number(hash % base)]!;
    hash /= base;
    return letter;
  }).join("");
}

/**
 * Mistral's templates up to version 7: `[TOOL_CALLS][{"name": "f", "arguments": {…}}]`.
 *
 * @see https://docs.mistral.ai/capabilities/function_calling/
 */
export const MISTRAL = makeMarkedFormat({
  name: "mistral",
  matches: (template) => template.includes(TOOL_CALLS),
  starts: [TOOL_CALLS],
  end: "",
  markers: [TOOL_CALLS, ARGS, CALL_ID],
  makeCallId,
  toCallId,
  readCalls: readMistral,
  open: "[",
  separator: ", ",
  close: "]",
  call: makeJsonCallGrammar,
});

/** Mistral's templates from version 11: `[TOOL_CALLS]f[ARGS]{…}`. */
export const MISTRAL_ARGS: CallFormat = {
  ...MISTRAL,
  name: "mistral_args",
  matches: (template) => template.includes(TOOL_CALLS) && template.includes(ARGS),
  markup: {
    trigger: TOOL_CALLS,
    open: "",
    separator: TOOL_CALLS,
    close: "",
    call: (called, param) => {
      const head = `${called.name}${ARGS}`;
      return makeArgumentsCallGrammar(called, { param, head, tail: "" });
    },
  },
};

/** Parses calls in either of Mistral's formats, as some models write both. */
function* readMistral(parsing: CallParsing): Parsing<boolean> {
  const { reader, sink } = parsing;
  if (yield* readJsonCalls(parsing)) return true;
  yield* reader.skipSpace();
  const name = yield* reader.takeRun(NAME);
  if (yield* reader.take(CALL_ID)) yield* reader.takeRun(/\w/);
  const hasArgs = yield* reader.take(ARGS);
  yield* reader.skipSpace();
  if (name === "" || (!hasArgs && (yield* reader.peek()) !== "{")) return false;
  sink.begin(name);
  yield* readArguments(reader, sink.write);
  sink.end();
  return true;
}
