/**
 * The interface of the formats in which models write function calls, and the reader that their parsers use.
 *
 * @module
 */
import type { GrammarSpec } from "../../../engine/grammar/grammar.ts";
import type { ToolFunction } from "../../task.ts";

/** Receives a parser's events. */
export interface CallSink {
  /** Text outside of calls. */
  text(text: string): void;
  /** Takes reasoning, in formats where calls and reasoning share their markup; `undefined` ends it. */
  think(text: string | undefined): void;
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
  /** Whether the prompt ends within a message that the answer continues. */
  readonly isBegun?: boolean | undefined;
}

/** The markup around calls, as grammars need it. */
export interface CallMarkup {
  /** Text before the trigger of an answer's first call, which is not needed to recognize the call. */
  readonly before?: string;
  /** The text that begins a call. A grammar for calls applies only after it. */
  readonly trigger: string;
  /** Text between the trigger and the first call. */
  readonly open: string;
  readonly separator: string;
  readonly close: string;
  /**
   * Makes the grammar of one call. If `called.strict` is false, the arguments only have to be parsable: any JSON
   * object, or any of the function's parameters with values of the right type.
   *
   * @param param path of the function's parameters in the request.
   */
  call(called: ToolFunction, param: string): GrammarSpec;
}

/** A call format; `CALL_FORMATS` in `chat/template_message.ts` lists all formats. */
export interface CallFormat {
  readonly name: string;
  /** Whether a chat template uses this format. */
  matches(template: string): boolean;
  /** The markers that may be special tokens. They must be decoded as text. */
  readonly markers: readonly string[];
  /** Makes a call id that the format's templates accept; if absent, ids are like OpenAI's. */
  readonly makeCallId?: () => string;
  /** Converts an id to one that the format's templates accept. Equal ids stay equal. */
  readonly toCallId?: (id: string) => string;
  /** Writes a call in this format without the markup around it; if absent, calls are written in JSON. */
  readonly writeCall?: (name: string, values: unknown) => string;
  /** Parses an answer from its beginning to its end. */
  parse(parsing: CallParsing): Parsing;
  /** The markup around text and reasoning, in formats that name the channel of each message. */
  readonly channels?: {
    /** The text before an answer without calls. */
    readonly final: string;
    /** The text before reasoning, the marker at its end, and the text after it. */
    readonly reasoning: { readonly open: string; readonly close: string; readonly next: string };
  };
  readonly markup: CallMarkup;
}

/** The properties of a format with markers around calls. */
export interface MarkedFormat
  extends Omit<CallFormat, "markers" | "parse" | "markup">, Omit<CallMarkup, "trigger"> {
  /** The markers that may open calls; grammars use the first one. */
  readonly starts: readonly string[];
  /** The marker that closes calls opened by the first of `starts`; empty if there is none. */
  readonly end: string;
  /** The markers that are special tokens; if absent, the first opening marker and the closing marker. */
  readonly markers?: readonly string[];
  /**
   * Parses the text after an opening marker.
   *
   * @param start the opening marker.
   * @returns whether it begins with a call; if not, nothing was emitted.
   */
  readCalls(parsing: CallParsing, start: string): Parsing<boolean>;
}

export function makeMarkedFormat(format: MarkedFormat): CallFormat {
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
 * Parses an answer. A marker without a call after it is text. Text between a call and its closing marker is dropped. So
 * is the end of a truncated answer if it may be the beginning of a call.
 */
function* readMarked(
  parsing: CallParsing,
  { starts, end, readCalls }: Pick<MarkedFormat, "starts" | "end" | "readCalls">,
): Parsing {
  const { reader, sink } = parsing;
  for (;;) {
    const marker = yield* reader.until(reader.mayRetrace ? starts : [], sink.text);
    if (marker === undefined) return;
    const inside = reader.position;
    const hasCalls = yield* readCalls(parsing, marker);
    if (reader.isCutShort) return;
    if (!hasCalls) {
      reader.moveTo(inside);
      sink.text(marker);
    } else if (end !== "" && marker === starts[0]) {
      const found = yield* reader.until([end, ...starts], () => {});
      if (found !== undefined && found !== end) reader.moveTo(reader.position - found.length);
    }
  }
}

/** Deepest nesting of arrays and objects that parsers follow: each level is a generator within another. */
export const MAX_NESTING = 100;

/**
 * Number of characters that may be read again after an attempt to parse a call has failed. Without a limit, an answer
 * of many markers that begin no call would take time that grows with the square of its length.
 */
const MAX_RETRACED = 2 ** 20;

/** Part of a parser: a generator that yields when it needs more text. */
export type Parsing<T = void> = Generator<void, T, void>;

/**
 * The input of a parser, which reads text that arrives in chunks as if it were complete. The parser's result does not
 * depend on the chunks: only text that later chunks cannot change is reported.
 */
export class TextReader {
  /**
   * Text that was read before the last chunk. It is not part of `#text`, because reading a character of a string to
   * which something was appended copies the string.
   */
  #past = "";
  #text = "";
  /** Offset of the beginning of `#text` in the whole text. */
  #base = 0;
  #position = 0;
  #hasEnded = false;
  /** Whether the text was truncated, by a limit or a stop string, rather than ended by the model. */
  #isCut = false;
  #hasRunOut = false;
  /** Number of characters that were read and will be read again. */
  #numRetraced = 0;

  /** Offset of the next character in the whole text. */
  get position(): number {
    return this.#position;
  }

  /** Adds the next chunk. */
  feed(chunk: string): void {
    this.#past += this.#text.slice(0, this.#at);
    this.#text = this.#text.slice(this.#at) + chunk;
    this.#base = this.#position;
  }

  /**
   * Ends the text.
   *
   * @param isCut whether the text was truncated: the model would have continued.
   */
  end(isCut = false): void {
    this.#hasEnded = true;
    this.#isCut = isCut;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether a parser reached the end of a truncated text: what it did not recognise may be an incomplete call. */
  get isCutShort(): boolean {
    return this.#isCut && this.#hasRunOut;
  }

  /** The text after the position, as far as it has arrived. */
  get rest(): string {
    return this.#text.slice(this.#at);
  }

  /** Moves to an offset, which must not precede text that {@linkcode until} has already reported. */
  moveTo(position: number): void {
    this.#numRetraced += Math.max(0, this.#position - position);
    this.#position = position;
    if (this.#at >= 0) return;
    const start = this.#past.length + this.#at;
    this.#text = this.#past.slice(start) + this.#text;
    this.#past = this.#past.slice(0, start);
    this.#base = position;
  }

  /** Whether text may still be read again. If not, the rest of the answer is taken as text. */
  get mayRetrace(): boolean {
    return this.#numRetraced <= MAX_RETRACED;
  }

  /** Returns the text since an offset, which must not precede text that {@linkcode until} has already reported. */
  since(position: number): string {
    const start = position - this.#base;
    const past = start < 0 ? this.#past.slice(this.#past.length + start) : "";
    return past + this.#text.slice(Math.max(0, start), this.#at);
  }

  /** Returns the next character without taking it; empty at the end of the text. */
  *peek(): Parsing<string> {
    while (this.#at >= this.#text.length && !this.#hasEnded) yield;
    const character = this.#text[this.#at] ?? "";
    if (character === "") this.#hasRunOut = true;
    return character;
  }

  /** Takes the next character; empty at the end of the text. */
  *next(): Parsing<string> {
    const character = yield* this.peek();
    this.#position += character.length;
    return character;
  }

  /** Takes `wanted` if the text continues with it. */
  *take(wanted: string): Parsing<boolean> {
    while (this.#text.length - this.#at < wanted.length) {
      if (!wanted.startsWith(this.rest)) return false;
      if (this.#hasEnded) {
        this.#hasRunOut = true;
        return false;
      }
      yield;
    }
    if (!this.#text.startsWith(wanted, this.#at)) return false;
    this.#position += wanted.length;
    return true;
  }

  /** Skips white space. */
  *skipSpace(): Parsing {
    while (/^\s$/.test(yield* this.peek())) this.#position++;
  }

  /** Takes the longest run of characters in `set`. */
  *takeRun(set: RegExp): Parsing<string> {
    const start = this.#position;
    for (;;) {
      const character = yield* this.peek();
      if (character === "" || !set.test(character)) return this.since(start);
      this.#position++;
    }
  }

  /**
   * Takes items separated by commas, up to and including `close`; a comma may follow the last item.
   *
   * @param takeItem takes one item; returning false ends the list.
   * @returns whether `close` was reached.
   */
  *takeItems(
    close: string,
    takeItem: (isFirst: boolean) => Parsing<boolean>,
  ): Parsing<boolean> {
    for (let isFirst = true;; isFirst = false) {
      yield* this.skipSpace();
      if (yield* this.take(close)) return true;
      if (!isFirst) {
        if (!(yield* this.take(","))) return false;
        yield* this.skipSpace();
        if (yield* this.take(close)) return true;
      }
      if (!(yield* takeItem(isFirst))) return false;
    }
  }

  /**
   * Takes the text up to and including the first of several endings, none of which is a prefix of another. If the text
   * is truncated within what may be an ending, that part is dropped unless it is a plain word.
   *
   * @param onText receives the text before the ending, as soon as it is certain that it is not part of the ending.
   * @returns the ending; `undefined` if the text ends without one.
   */
  *until(
    endings: readonly string[],
    onText: (text: string) => void,
  ): Parsing<string | undefined> {
    for (;;) {
      const settled = this.#hasEnded ? this.#measureText(endings) : this.#measureSettled(endings);
      const found = this.#findFirst(endings);
      const isFound = found !== undefined && found.index <= settled;
      const end = isFound ? found.index : settled;
      if (end > this.#at) onText(this.#text.slice(this.#at, end));
      this.#position = this.#base + end;
      if (isFound) {
        this.#position += found.ending.length;
        return found.ending;
      }
      if (this.#hasEnded) {
        if (settled < this.#text.length) this.#hasRunOut = true;
        this.#position = this.#base + this.#text.length;
        return undefined;
      }
      // Drops the reported text, as the parser never moves back before it.
      this.#past = "";
      this.#text = this.#text.slice(end);
      this.#base += end;
      yield;
    }
  }

  get #at(): number {
    return this.#position - this.#base;
  }

  #findFirst(endings: readonly string[]): { index: number; ending: string } | undefined {
    if (endings.length === 0) return undefined;
    // All endings are searched for at once. A separate search for an ending that is rare would run to the end of the
    // text.
    const pattern = new RegExp(endings.map(RegExp.escape).join("|"), "g");
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    return match === null ? undefined : { index: match.index, ending: match[0] };
  }

  /** The length of the complete text, without an incomplete ending if the text was truncated there. */
  #measureText(endings: readonly string[]): number {
    const settled = this.#isCut ? this.#measureSettled(endings) : this.#text.length;
    return /\W/.test(this.#text.slice(settled)) ? settled : this.#text.length;
  }

  /** The length of the part that cannot overlap an ending and does not end within a surrogate pair. */
  #measureSettled(endings: readonly string[]): number {
    const longest = Math.max(1, ...endings.map(({ length }) => length));
    const { length } = this.#text;
    for (let at = Math.max(this.#at, length - longest + 1); at < length; at++) {
      const rest = this.#text.slice(at);
      if (endings.some((ending) => ending.startsWith(rest))) return at;
    }
    const isHalf = /[\uD800-\uDBFF]/.test(this.#text.charAt(length - 1));
    return isHalf ? Math.max(this.#at, length - 1) : length;
  }
}
