/**
 * The formats in which models write function calls.
 *
 * @module
 */
import type { GrammarSpec } from "../../../engine/grammar/grammar.ts";
import type { ToolFunction } from "../../task.ts";
import type { Parsing, TextReader } from "./text_reader.ts";

/** Receives a parser's events. */
export interface CallSink {
  /** Text outside of calls. */
  text(text: string): void;
  /** A call begins. */
  begin(name: string): void;
  /** The next chunk of the call's arguments, as JSON. */
  write(json: string): void;
  /** The call ends. */
  end(): void;
}

/** The input of a call parser. */
export interface CallParsing {
  readonly reader: TextReader;
  readonly sink: CallSink;
  /** The available functions, by name. */
  readonly functions: ReadonlyMap<string, ToolFunction>;
}

/** The markup around calls, for grammars. */
export interface CallMarkup {
  /** The beginning of a call; a grammar for calls applies only after it. */
  readonly trigger: string;
  /** Text between the trigger and the first call. */
  readonly open: string;
  readonly separator: string;
  readonly close: string;
  /**
   * The grammar of one call. If `called.strict` is false, its arguments only have to be parsable: any JSON object, or
   * any of the function's parameters, each of its type.
   *
   * @param param path of the function's parameters in the request.
   */
  call(called: ToolFunction, param: string): GrammarSpec;
}

/** A call format; `call_formats.ts` lists them all. */
export interface CallFormat {
  readonly name: string;
  /** Whether a chat template uses this format. */
  matches(template: string): boolean;
  /** Special tokens of the markup, which must be decoded as text. */
  readonly markers: readonly string[];
  /** Makes a call id that the format's templates accept; an id like OpenAI's if absent. */
  readonly newCallId?: () => string;
  /** Converts any id to one that the format's templates accept, always to the same one. */
  readonly toCallId?: (id: string) => string;
  /** Writes a call in this format, without the markup around it; as JSON if absent. */
  readonly writeCall?: (name: string, values: unknown) => string;
  /** Parses an answer from its beginning to its end. */
  parse(parsing: CallParsing): Parsing;
  readonly markup: CallMarkup;
}

/** What distinguishes one format with markers around calls from another. */
export interface MarkedFormat
  extends Omit<CallFormat, "markers" | "parse" | "markup">, Omit<CallMarkup, "trigger"> {
  /** The markers that may open calls; grammars use the first one. */
  readonly starts: readonly string[];
  /** The marker that closes calls; empty if there is none. */
  readonly end: string;
  /** The markers that are special tokens; the first opening and the closing marker if absent. */
  readonly markers?: readonly string[];
  /**
   * Parses what follows an opening marker.
   *
   * @returns whether it was a call; if not, nothing was emitted.
   */
  readCalls(parsing: CallParsing): Parsing<boolean>;
}

export function markedFormat(format: MarkedFormat): CallFormat {
  const { starts, end, readCalls, open, separator, close, call, ...rest } = format;
  const trigger = starts[0]!;
  return {
    markers: [trigger, ...end === "" ? [] : [end]],
    ...rest,
    parse: (parsing) => readMarked(parsing, { starts, end, readCalls }),
    markup: { trigger, open, separator, close, call },
  };
}

/**
 * Parses an answer. A marker without a call after it is text. What stands between a call and its closing marker is
 * dropped. So is what may be the beginning of a call, if the text was cut there.
 */
function* readMarked(
  parsing: CallParsing,
  { starts, end, readCalls }: Pick<MarkedFormat, "starts" | "end" | "readCalls">,
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
