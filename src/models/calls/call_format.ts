/**
 * How a model writes that it calls functions.
 *
 * @module
 */
import type { GrammarSpec } from "../../grammar/spec.ts";
import type { ToolFunction } from "../task.ts";
import type { Parsing, TextReader } from "./text_reader.ts";

/** Where a parser tells what it read. */
export interface CallSink {
  /** Text that belongs to no call. */
  text(text: string): void;
  /** A call begins. */
  begin(name: string): void;
  /** The next piece of the call's arguments, as JSON. */
  write(json: string): void;
  /** The call is over. */
  end(): void;
}

/** What a parser works with. */
export interface CallParsing {
  readonly reader: TextReader;
  readonly sink: CallSink;
  /** What the model was told that it may call, by name. */
  readonly functions: ReadonlyMap<string, ToolFunction>;
}

/** The markup of calls, as grammars force it. */
export interface CallMarkup {
  /** What calls begin with; a grammar that binds only calls begins to bind behind it. */
  readonly trigger: string;
  /** Between the trigger and the first call. */
  readonly open: string;
  readonly separator: string;
  readonly close: string;
  /**
   * One call. Where `called.strict` is false its arguments are as free as the format can be parsed: any JSON object, or
   * the function's own parameters, any of them, each of its type.
   *
   * @param param where the function's parameters stand in the request.
   */
  call(called: ToolFunction, param: string): GrammarSpec;
}

/** One format; see the table in `call_formats.ts`. */
export interface CallFormat {
  readonly name: string;
  /** Whether a chat template has its models write so. */
  matches(template: string): boolean;
  /** Tokens that are part of the markup: text, where a tokenizer takes them for special ones. */
  readonly markers: readonly string[];
  /** The ids that its templates take; those of OpenAI's form if absent. */
  readonly newCallId?: () => string;
  /** Makes of any id one that its templates take, always the same. */
  readonly callIdOf?: (id: string) => string;
  /** A call as its models write it, without the markup around it; as JSON if absent. */
  readonly writeCall?: (name: string, values: unknown) => string;
  /** Reads an answer from its beginning to its end. */
  parse(parsing: CallParsing): Parsing;
  readonly markup: CallMarkup;
}
