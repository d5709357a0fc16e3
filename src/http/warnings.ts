/**
 * Warnings about a request that is answered all the same: one line in the log, and the answer's `warning` header.
 *
 * @module
 */
import { log } from "../log.ts";
import type { Call } from "./route.ts";

/** Longest text of a `warning` header. */
const MAX_HEADER_CHARS = 500;

/** Adds warnings to those of a request. Each names the field and says what happens instead. */
export function warn(call: Call, ...warnings: readonly string[]): void {
  if (warnings.length > 0) call.set("warnings", [...call.get("warnings") ?? [], ...warnings]);
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
  const shown = text.length <= MAX_HEADER_CHARS ? text : `${text.slice(0, MAX_HEADER_CHARS)}...`;
  return shown.replace(/["\\]/g, "'").replace(/[^\x20-\x7e]/g, "?");
}
