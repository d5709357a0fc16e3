/**
 * Names requests for logs, and answers failed ones.
 *
 * @module
 */
import { errorAnswer } from "../../wire/error_body.ts";
import { HearthError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { Call } from "./route.ts";

/** nginx's status for a client that disconnected before the answer. It is only logged. */
export const CLIENT_DISCONNECTED = 499;

/** Answers with the error that a handler threw. An error that is not meant for clients is logged. */
export function answerError(thrown: unknown, call: Call): Response {
  const requestId = call.get("requestId");
  const isAbort = thrown instanceof Error && thrown.name === "AbortError";
  if (call.req.raw.signal.aborted || isAbort) {
    return new Response(null, { status: CLIENT_DISCONNECTED });
  }
  const error = HearthError.from(thrown);
  // The worker has already logged a HearthError of its own.
  if (error !== thrown) {
    log.error("a request failed", { requestId, path: call.req.path, error: thrown });
  }
  const { status, body, headers } = errorAnswer(call.req.path, error);
  for (const [name, value] of Object.entries(headers)) call.header(name, value);
  return call.body(JSON.stringify(body), status as 400, { "content-type": "application/json" });
}

export const MAX_SHOWN_PATH = 100;

const SANE_REQUEST_ID = /^[\w.:+/=-]{1,128}$/;

/** The request id that the client sent, if it is valid; otherwise a new one. */
export function nameRequest({ headers }: Request): string {
  const proposed = headers.get("x-request-id") ?? "";
  return SANE_REQUEST_ID.test(proposed) ? proposed : crypto.randomUUID();
}

/** Removes doubled and trailing slashes from a path, and maps llama.cpp's names to this server's. */
export function plainPath(request: Request): string {
  const { pathname } = new URL(request.url);
  return pathname.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "")
    .replace(/^((?:\/v1)?)\/reranking$/, "$1/rerank");
}

/** A request's path for messages and log lines, shortened. */
export function shownPath({ req: { path } }: Call): string {
  return path.length <= MAX_SHOWN_PATH ? path : `${path.slice(0, MAX_SHOWN_PATH)}…`;
}

/** Owners of paths that this server does not have, by how the path begins. */
const OWNERS: readonly (readonly [path: RegExp, owner: string])[] = [
  [/^\/(props|slots|completion|infill|embedding|lora-adapters)$/, "llama.cpp's own API"],
  [/^\/api\/v\d(\/|$)/, "LM Studio's own API"],
  [/^\/api(\/|$)/, "Ollama's own API"],
  [/^\/v1(alpha|beta)\d?(\/|$)/, "Google's API"],
  [/^\/openai\/deployments(\/|$)/, "Azure's API"],
  [/^\/(version|ping|server_info|get_model_info|is_sleeping)$/, "another server's own API"],
];

/**
 * Tells what to do about a request for another server's API, in one sentence; `undefined` for any other path.
 *
 * @param origin of this server, as the client addresses it.
 */
export function explainForeignPath(path: string, origin: string): string | undefined {
  const owner = OWNERS.find(([pattern]) => pattern.test(path))?.[1];
  if (owner === undefined) return undefined;
  return `This path belongs to ${owner}, which is not served here: configure the client for an ` +
    `OpenAI-compatible server with the base address ${origin}/v1.`;
}

// Errors about the chat request that another API's request was converted to, in terms of the fields that the client
// sent.

/**
 * Renames the error's field, in `param` and in the message, to the client's own.
 *
 * @param ownParam maps a path in the chat request to the client's own.
 */
export function inOwnWords(error: unknown, ownParam: (param: string) => string): unknown {
  if (!(error instanceof HearthError) || error.param === undefined) return error;
  const param = ownParam(error.param);
  const message = error.message.replaceAll(error.param, () => param);
  return new HearthError(error.kind, message, { param, cause: error.cause });
}
