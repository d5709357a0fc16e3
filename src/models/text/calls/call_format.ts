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
