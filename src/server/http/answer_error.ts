/**
 * The answer to a request that failed.
 *
 * @module
 */
import { errorAnswer } from "../../wire/error_body.ts";
import { HearthError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { Call } from "./route.ts";

/** nginx's status for a client that disconnected before the answer; nobody receives it. */
export const CLIENT_DISCONNECTED = 499;

/** Answers with the error that a handler threw; one that is not meant for clients is logged. */
export function answerError(thrown: unknown, call: Call): Response {
  const requestId = call.get("requestId");
  const isAbort = thrown instanceof Error && thrown.name === "AbortError";
  if (call.req.raw.signal.aborted || isAbort) {
    return new Response(null, { status: CLIENT_DISCONNECTED });
  }
  const error = HearthError.from(thrown);
  // A HearthError from the worker has been logged there.
  if (error !== thrown) {
    log.error("a request failed", { requestId, path: call.req.path, error: thrown });
  }
  const { status, body, headers } = errorAnswer(call.req.path, error);
  for (const [name, value] of Object.entries(headers)) call.header(name, value);
  return call.body(JSON.stringify(body), status as 400, { "content-type": "application/json" });
}
