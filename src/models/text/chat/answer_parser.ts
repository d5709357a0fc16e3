/**
 * Parses the text of a model's answer as it arrives, into reasoning, text and calls.
 *
 * @module
 */
import { isJson } from "../../../base/json.ts";
import { type CallFormat, type CallSink, type Parsing, TextReader } from "../calls/call_format.ts";
import type { ToolCallDelta } from "../../task.ts";
import type { AnswerFormat } from "./answer_format.ts";

/** A part of an answer: reasoning, then text, then calls. */
export interface AnswerDelta {
  readonly text: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCallDelta[];
}

/** A part that is still growing. */
interface OpenDelta extends AnswerDelta {
  text: string;
  reasoning: string;
  readonly toolCalls: ToolCallDelta[];
}

/** Parses one answer. The results do not depend on how the text is divided into chunks. */
export class AnswerParser {
  readonly #format: AnswerFormat;
  readonly #reader = new TextReader();
  readonly #reading: Parsing;
  #isReasoning = false;
  #numCalls = 0;
  #numFinishedCalls = 0;
  /** Whether the text ended within the arguments of a call. */
  #isCallCut = false;
  /** The arguments of the current call so far. */
  #json = "";
  /** White space held back until more text follows: at the end of reasoning and before a call it is markup. */
  #space = "";
  /** Whether leading white space is markup, as at the start of reasoning and after it. */
  #trimsStart = false;
  #deltas: OpenDelta[] = [];

  constructor(format: AnswerFormat) {
    this.#format = format;
    this.#reading = this.#read();
    this.#reading.next();
  }

  /** Whether the next text is reasoning, as far as known. */
  get isReasoning(): boolean {
    return this.#isReasoning;
  }

  /** Number of calls so far; dropped calls do not count. */
  get numCalls(): number {
    return this.#numCalls;
  }

  /** Whether the answer must end because it may hold only one call, which is complete. */
  get isOver(): boolean {
    return this.#format.calls?.isParallel === false && this.#numFinishedCalls > 0;
  }

  /** Whether there are calls, and all of them have complete arguments. */
  get hasWholeCalls(): boolean {
    return this.#numCalls > 0 && !this.#isCallCut;
  }

  /** Parses the next chunk. @returns the parts that it adds, in order. */
  push(chunk: string): readonly AnswerDelta[] {
    this.#reader.feed(chunk);
    this.#reading.next();
    return this.#take();
  }

  /**
   * Ends the text.
   *
   * @param isCut whether the text was truncated; incomplete markup is then left out.
   * @returns the parts that were held back.
   */
  end(isCut = false): readonly AnswerDelta[] {
    this.#reader.end(isCut);
    while (!this.#reading.next().done);
    const isShown = this.#numCalls === 0 && !this.#isReasoning && !this.#reader.isCutShort;
    if (isShown) this.#addText(this.#space);
    this.#space = "";
    return this.#take();
  }

  *#read(): Parsing {
    const reader = this.#reader;
    const { reasoning, calls } = this.#format;
    if (reasoning?.state === "is_open") this.#think("");
    if (reasoning !== undefined && (yield* this.#findReasoning(reasoning))) {
      this.#think("");
      const ending = yield* reader.until([reasoning.markers.close], (text) => this.#think(text));
      if (ending === undefined) this.#space = "";
      else this.#think(undefined);
    }
    if (calls === undefined) yield* reader.until([], (text) => this.#say(text));
    else {
      const functions = new Map(calls.functions.map((each) => [each.name, each]));
      const sink = calls.isIgnored ? this.#ignoringSink() : this.#callSink(calls.format);
      yield* calls.format.parse({ reader, sink, functions, isBegun: calls.isBegun });
    }
  }

  /** Finds out whether the answer begins with reasoning. */
  *#findReasoning({ markers, state }: NonNullable<AnswerFormat["reasoning"]>): Parsing<boolean> {
    const reader = this.#reader;
    const start = reader.position;
    yield* reader.skipSpace();
    // Some models open a block that the prompt has opened already.
    if ((yield* reader.take(markers.open)) || state === "is_open") return true;
    reader.moveTo(start);
    return false;
  }

  /** Adds reasoning; `undefined` ends it. */
  readonly #think = (text: string | undefined): void => {
    if (text === undefined || !this.#isReasoning) {
      this.#isReasoning = text !== undefined;
      this.#space = "";
      this.#trimsStart = true;
    }
    if (text === undefined) return;
    const shown = this.#holdSpace(this.#trimStart(text));
    if (shown !== "") this.#last().reasoning += shown;
  };

  readonly #say = (text: string): void => {
    const trimmed = this.#trimStart(text);
    this.#addText(this.#format.calls === undefined ? trimmed : this.#holdSpace(trimmed));
  };

  #addText(text: string): void {
    if (text === "") return;
    // Text after a call begins a new part.
    const last = this.#last();
    if (last.toolCalls.length === 0) last.text += text;
    else this.#deltas.push({ text, reasoning: "", toolCalls: [] });
  }

  #last(): OpenDelta {
    const last = this.#deltas.at(-1) ?? { text: "", reasoning: "", toolCalls: [] };
    if (this.#deltas.length === 0) this.#deltas.push(last);
    return last;
  }

  #trimStart(text: string): string {
    if (!this.#trimsStart) return text;
    const trimmed = text.trimStart();
    this.#trimsStart = trimmed === "";
    return trimmed;
  }

  /** Holds back the white space at the end of a text. */
  #holdSpace(text: string): string {
    const kept = text.trimEnd();
    const space = text.slice(kept.length);
    if (kept === "") {
      this.#space += space;
      return "";
    }
    const shown = this.#space + kept;
    this.#space = space;
    return shown;
  }

  #callSink(format: CallFormat): CallSink {
    const { makeCallId = () => `call_${crypto.randomUUID().replaceAll("-", "")}` } = format;
    return {
      text: (text) => {
        if (!this.isOver) this.#say(text);
      },
      think: this.#think,
      begin: (name) => {
        if (this.isOver) return;
        this.#space = "";
        const index = this.#numCalls++;
        this.#last().toolCalls.push({ index, id: makeCallId(), name, arguments: "" });
        this.#json = "";
      },
      write: (json) => {
        if (this.isOver) return;
        this.#json += json;
        const index = this.#numCalls - 1;
        const { toolCalls } = this.#last();
        const last = toolCalls.at(-1);
        if (last?.index !== index) toolCalls.push({ index, arguments: json });
        else toolCalls.splice(-1, 1, { ...last, arguments: last.arguments + json });
      },
      end: () => {
        if (this.isOver) return;
        this.#numFinishedCalls++;
        this.#isCallCut ||= this.#reader.hasEnded && !isJson(this.#json);
      },
    };
  }

  #ignoringSink(): CallSink {
    const nothing = () => {};
    const begin = () => void (this.#space = "");
    return { text: this.#say, think: this.#think, begin, write: nothing, end: nothing };
  }

  #take(): readonly AnswerDelta[] {
    const deltas = this.#deltas;
    this.#deltas = [];
    return deltas;
  }
}
