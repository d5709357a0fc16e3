import type { GrammarSpec } from "../../../grammar/spec.ts";
import type { CallFormat, CallParsing } from "../call_format.ts";
import { argumentsGrammar, readArguments, readJsonCalls } from "../json_call.ts";
import { readMarked } from "../marked_calls.ts";
import type { Parsing } from "../text_reader.ts";

const [START, ARGS, CALL_ID] = ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"];
const ID_LENGTH = 9;
const ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

function newCallId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_LENGTH));
  return Array.from(bytes, (byte) => ID_LETTERS[byte % ID_LETTERS.length]).join("");
}

const OWN_ID = new RegExp(`^[a-zA-Z0-9]{${ID_LENGTH}}$`);

/** Templates refuse ids of any other form, which conversations from other servers have. */
function callIdOf(id: string): string {
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

const parse = (parsing: CallParsing) =>
  readMarked(parsing, { starts: [START], end: "", readCalls });

/**
 * `[TOOL_CALLS][{"name": "f", "arguments": {…}}]`: Mistral's templates up to version 7.
 *
 * @see https://docs.mistral.ai/capabilities/function_calling/
 */
export const MISTRAL: CallFormat = {
  name: "mistral",
  matches: (template) => template.includes(START),
  markers: [START, ARGS, CALL_ID],
  newCallId,
  callIdOf,
  parse,
  markup: {
    trigger: START,
    open: "[",
    separator: ", ",
    close: "]",
    call: (called, param) => ({
      kind: "sequence",
      items: [
        { kind: "text", text: `{"name": ${JSON.stringify(called.name)}, "arguments": ` },
        argumentsGrammar(called, param),
        { kind: "text", text: "}" },
      ],
    }),
  },
};

/** `[TOOL_CALLS]f[ARGS]{…}`: Mistral's templates from version 11. */
export const MISTRAL_ARGS: CallFormat = {
  ...MISTRAL,
  name: "mistral_args",
  matches: (template) => template.includes(START) && template.includes(ARGS),
  markup: {
    trigger: START,
    open: "",
    separator: START,
    close: "",
    call: (called, param): GrammarSpec => ({
      kind: "sequence",
      items: [
        { kind: "text", text: `${called.name}${ARGS}` },
        argumentsGrammar(called, param),
      ],
    }),
  },
};

/** Either form: some versions' models write both. */
function* readCalls(parsing: CallParsing): Parsing<boolean> {
  const { reader, sink } = parsing;
  if (yield* readJsonCalls(parsing)) return true;
  yield* reader.skipSpace();
  const name = yield* reader.takeRun(/[\w.:/-]/);
  if (yield* reader.take(CALL_ID)) yield* reader.takeRun(/\w/);
  const hasArgs = yield* reader.take(ARGS);
  yield* reader.skipSpace();
  if (name === "" || (!hasArgs && (yield* reader.peek()) !== "{")) return false;
  sink.begin(name);
  yield* readArguments(reader, sink.write);
  sink.end();
  return true;
}
