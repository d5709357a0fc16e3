/**
 * Formats in which models write function calls.
 *
 * @module
 */
import type { GrammarSpec } from "../../../engine/grammar/spec.ts";
import type { ToolFunction } from "../../task.ts";
import type { Parsing, TextReader } from "./text_reader.ts";

/** The events of a parser. */
export interface CallSink {
  /** Text that belongs to no call. */
  text(text: string): void;
  /** A call begins. */
  begin(name: string): void;
  /** The next piece of the call's arguments, as JSON. */
  write(json: string): void;
  /** The call ends. */
  end(): void;
}

/** The input of a parser. */
export interface CallParsing {
  readonly reader: TextReader;
  readonly sink: CallSink;
  /** The available functions, by name. */
  readonly functions: ReadonlyMap<string, ToolFunction>;
}

/** The markup of calls, for grammars. */
export interface CallMarkup {
  /** What calls begin with; a grammar for calls only applies after it. */
  readonly trigger: string;
  /** Text between the trigger and the first call. */
  readonly open: string;
  readonly separator: string;
  readonly close: string;
  /**
   * One call. If `called.strict` is false its arguments are only constrained to be parsable: any JSON object, or any of
   * the function's parameters, each of its type.
   *
   * @param param path of the function's parameters in the request.
   */
  call(called: ToolFunction, param: string): GrammarSpec;
}

/** One format; see the table in `call_formats.ts`. */
export interface CallFormat {
  readonly name: string;
  /** Whether a chat template uses this format. */
  matches(template: string): boolean;
  /** Special tokens that are part of the markup and must be decoded as text. */
  readonly markers: readonly string[];
  /** The form of call ids that its templates accept; OpenAI's if absent. */
  readonly newCallId?: () => string;
  /** Converts any id to one that its templates accept, deterministically. */
  readonly toCallId?: (id: string) => string;
  /** A call in this format, without the markup around it; as JSON if absent. */
  readonly writeCall?: (name: string, values: unknown) => string;
  /** Reads an answer from its beginning to its end. */
  parse(parsing: CallParsing): Parsing;
  readonly markup: CallMarkup;
}

/** What tells one format of calls between markers from another. */
export interface MarkedForm
  extends Omit<CallFormat, "markers" | "parse" | "markup">, Omit<CallMarkup, "trigger"> {
  /** Markers before calls; the first is the one that a grammar writes. */
  readonly starts: readonly string[];
  /** Empty if calls have no end marker. */
  readonly end: string;
  /** Special tokens; the first marker and the one at the end if absent. */
  readonly markers?: readonly string[];
  /** Reads what follows a marker. @returns whether it was a call; if not, nothing was emitted. */
  readCalls(parsing: CallParsing): Parsing<boolean>;
}

export function markedFormat(form: MarkedForm): CallFormat {
  const { starts, end, readCalls, open, separator, close, call, ...rest } = form;
  const trigger = starts[0]!;
  return {
    markers: [trigger, ...end === "" ? [] : [end]],
    ...rest,
    parse: (parsing) => readMarked(parsing, { starts, end, readCalls }),
    markup: { trigger, open, separator, close, call },
  };
}

/**
 * Reads an answer. A marker without a call after it is text; what is between a call and its end marker is dropped, and
 * what may be the beginning of a call where the text was cut.
 */
function* readMarked(
  parsing: CallParsing,
  { starts, end, readCalls }: Pick<MarkedForm, "starts" | "end" | "readCalls">,
): Parsing {
  const { reader, sink } = parsing;
  for (;;) {
    const marker = yield* reader.until(starts, sink.text);
    if (marker === undefined) return;
    const inside = reader.position;
    const hasCalls = yield* readCalls(parsing);
    if (reader.isCutShort) return;
    if (!hasCalls) {
      reader.moveTo(inside);
      sink.text(marker);
    } else if (end !== "") {
      const found = yield* reader.until([end, ...starts], () => {});
      if (found !== undefined && found !== end) reader.moveTo(reader.position - found.length);
    }
  }
}
