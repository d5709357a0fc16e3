/**
 * Warnings about a request that is answered all the same: one line in the log, and the answer's `warning` header.
 *
 * @module
 */
import { log } from "../../base/log.ts";
import type { Call } from "./route.ts";

/** Longest warning, of which clients may have chosen a part. */
const MAX_CHARS = 200;
/** Longest text of a `warning` header. */
const MAX_HEADER_CHARS = 500;

/** Adds warnings to those of a request. Each names the field and says what happens instead. */
export function warn(call: Call, ...warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const shown = warnings.map((each) => shorten(each, MAX_CHARS));
  call.set("warnings", [...call.get("warnings") ?? [], ...shown]);
}

/** Logs a request's warnings, and sets the header of its answer; nothing if there are none. */
export function reportWarnings(call: Call): void {
  const warnings = call.get("warnings");
  if (warnings === undefined) return;
  log.warn("a request was answered with warnings", {
    requestId: call.get("requestId"),
    warnings: warnings.join("; "),
  });
  call.res.headers.set("warning", `299 hearth "${quotable(warnings.join("; "))}"`);
}

/** Clients may have chosen parts of a warning, and a header holds neither line breaks nor all characters. */
function quotable(text: string): string {
  return shorten(text, MAX_HEADER_CHARS).replace(/["\\]/g, "'").replace(/[^\x20-\x7e]/g, "?");
}

function shorten(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars)}...`;
}
