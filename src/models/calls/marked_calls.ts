/**
 * Calls between markers, and text around them.
 *
 * @module
 */
import type { CallParsing } from "./call_format.ts";
import type { Parsing } from "./text_reader.ts";

/** The markers of calls. */
export interface Marked {
  readonly starts: readonly string[];
  /** Empty if calls have no end marker. */
  readonly end: string;
  /** Reads what follows a marker. @returns whether it was a call; if not, nothing was emitted. */
  readCalls(parsing: CallParsing): Parsing<boolean>;
}

/** Reads an answer. A marker without a call after it is text; what is between a call and its end marker is dropped. */
export function* readMarked(parsing: CallParsing, { starts, end, readCalls }: Marked): Parsing {
  const { reader, sink } = parsing;
  for (;;) {
    const marker = yield* reader.until(starts, sink.text);
    if (marker === undefined) return;
    const inside = reader.position;
    if (!(yield* readCalls(parsing))) {
      reader.moveTo(inside);
      sink.text(marker);
    } else if (end !== "") {
      const found = yield* reader.until([end, ...starts], () => {});
      if (found !== undefined && found !== end) reader.moveTo(reader.position - found.length);
    }
  }
}
