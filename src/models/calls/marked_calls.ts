/**
 * Calls between markers, and text around them.
 *
 * @module
 */
import type { CallParsing } from "./call_format.ts";
import type { Parsing } from "./text_reader.ts";

/** How calls stand between markers. */
export interface Marked {
  readonly starts: readonly string[];
  /** Empty where calls have no end of their own. */
  readonly end: string;
  /** Reads what stands behind a marker. @returns whether it was a call; where not, nothing was told. */
  readCalls(parsing: CallParsing): Parsing<boolean>;
}

/**
 * Reads an answer. A marker without a call behind it is text; what stands between a call and its end is dropped.
 */
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
