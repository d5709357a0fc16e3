/**
 * How a request is named, and the answer to one that failed.
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

export const MAX_SHOWN_PATH = 100;

const SANE_REQUEST_ID = /^[\w.:+/=-]{1,128}$/;

/** The client's own id of a request if it is valid, else a new one. */
export function nameRequest({ headers }: Request): string {
  const proposed = headers.get("x-request-id") ?? "";
  return SANE_REQUEST_ID.test(proposed) ? proposed : crypto.randomUUID();
}

/** Removes doubled and trailing slashes from a path, and llama.cpp's name of one. */
export function plainPath(request: Request): string {
  const { pathname } = new URL(request.url);
  return pathname.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "")
    .replace(/^((?:\/v1)?)\/reranking$/, "$1/rerank");
}

/** A request's path for messages and log lines, shortened. */
export function shownPath({ req: { path } }: Call): string {
  return path.length <= MAX_SHOWN_PATH ? path : `${path.slice(0, MAX_SHOWN_PATH)}…`;
}

/** Whose a path is, by what it begins with. */
const OWNERS: readonly (readonly [path: RegExp, owner: string])[] = [
  [/^\/(props|slots|completion|infill|embedding|lora-adapters)$/, "llama.cpp's own API"],
  [/^\/api\/v\d(\/|$)/, "LM Studio's own API"],
  [/^\/api(\/|$)/, "Ollama's own API"],
  [/^\/v1(alpha|beta)\d?(\/|$)/, "Google's API"],
  [/^\/openai\/deployments(\/|$)/, "Azure's API"],
  [/^\/(version|ping|server_info|get_model_info|is_sleeping)$/, "another server's own API"],
];

/**
 * What to do about a request for another server's API, in one sentence; `undefined` for any other path.
 *
 * @param origin of this server, as the client calls it.
 */
export function explainForeignPath(path: string, origin: string): string | undefined {
  const owner = OWNERS.find(([pattern]) => pattern.test(path))?.[1];
  if (owner === undefined) return undefined;
  return `This path belongs to ${owner}, which is not served here: have the client take this ` +
    `server for an OpenAI-compatible one, with the base address ${origin}/v1.`;
}

// Errors about the chat request that another form of the API stands for, in the words of the
// request that was sent.

/**
 * The same error with its field, in `param` and in the message, as the client named it.
 *
 * @param ownParam from a path in the chat request to the client's own.
 */
export function inOwnWords(error: unknown, ownParam: (param: string) => string): unknown {
  if (!(error instanceof HearthError) || error.param === undefined) return error;
  const param = ownParam(error.param);
  const message = error.message.replaceAll(error.param, () => param);
  return new HearthError(error.kind, message, { param, cause: error.cause });
}
