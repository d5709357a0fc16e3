/**
 * Calls between markers, and text around them.
 *
 * @module
 */
import type { CallFormat, CallMarkup, CallParsing } from "./call_format.ts";
import type { Parsing } from "./text_reader.ts";

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
