/**
 * Warnings about a request that is answered anyway: one log line, and the answer's `warning` header.
 *
 * @module
 */
import { log } from "../../base/log.ts";
import type { Call } from "./route.ts";

/** Longest warning, since clients may have chosen a part of it. */
const MAX_CHARS = 200;
/** Longest text of a `warning` header. */
const MAX_HEADER_CHARS = 500;

/** Adds warnings to a request. Each names the field and says what happens instead. */
export function warn(call: Call, ...warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const shown = warnings.map((each) => shorten(each, MAX_CHARS));
  call.set("warnings", [...call.get("warnings") ?? [], ...shown]);
}

/** Logs a request's warnings and sets the header of its answer; does nothing if there are none. */
export function reportWarnings(call: Call): void {
  const warnings = call.get("warnings");
  if (warnings === undefined) return;
  log.warn("a request was answered with warnings", {
    requestId: call.get("requestId"),
    warnings: warnings.join("; "),
  });
  call.res.headers.set("warning", `299 hearth "${quotable(warnings.join("; "))}"`);
}

/**
 * Makes a warning safe for a header, which may hold neither line breaks nor all characters, as clients may have chosen
 * a part of it.
 */
function quotable(text: string): string {
  return shorten(text, MAX_HEADER_CHARS).replace(/["\\]/g, "'").replace(/[^\x20-\x7e]/g, "?");
}

function shorten(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars)}...`;
}
