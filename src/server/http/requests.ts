/**
 * The common parts of handling requests: ids, JSON bodies, warnings, error responses and log lines.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import type { z } from "zod";
import { type InferencePath, requireEndpoint } from "../../wire/models.ts";
import { makeErrorResponse } from "../../wire/error_body.ts";
import { parseRequest } from "../../wire/fields.ts";
import { type AnswerFamily, findUnserved } from "../../wire/unserved_fields.ts";
import { collectGarbageLater } from "../../base/memory.ts";
import { HearthError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { readJson } from "./body/body.ts";
import { isLocal } from "./locality.ts";
import type { MediaDeps } from "./media.ts";
import type { AppDeps, Call, Env } from "./route.ts";

/** nginx's status for a client that disconnected before its response was complete. It is only logged and counted. */
const CLIENT_DISCONNECTED = 499;

/** A request whose response is complete. */
export interface EndedRequest {
  readonly method: string;
  readonly status: number;
  readonly startMs: number;
  /** Seconds from the request's arrival until the last byte of the response was sent, or the client disconnected. */
  readonly seconds: number;
}

/** Functions called at the beginning and the end of each request. */
interface RequestListener {
  begin(call: Call): void;
  /** Called when the response is complete. @returns further fields of the log line. */
  end(call: Call, ended: EndedRequest): Readonly<Record<string, unknown>>;
}

/**
 * Gives each request an id, sets the headers of all responses, reports warnings, and logs the request when its response
 * is complete.
 */
export function trackRequests(listener: RequestListener): MiddlewareHandler<Env> {
  return async (call, next) => {
    const startMs = performance.now();
    const requestId = chooseRequestId(call.req.raw);
    call.set("requestId", requestId);
    listener.begin(call);
    await next();
    const { status, headers } = call.res;
    headers.set("x-request-id", requestId);
    // Anthropic's clients read the request id from this header.
    if (/^(\/v1)?\/messages(\/|$)/.test(call.req.path)) headers.set("request-id", requestId);
    headers.set("x-content-type-options", "nosniff");
    reportWarnings(call);
    call.env.completed.then(() => {
      const { method, raw: { signal } } = call.req;
      const seconds = (performance.now() - startMs) / 1000;
      // A client that hangs up is recorded as disconnected, even if the status of its stream has been sent.
      const ending = signal.aborted ? CLIENT_DISCONNECTED : status;
      const fields = listener.end(call, { method, status: ending, startMs, seconds });
      const write = method === "POST" ? log.info : log.debug;
      write("request", {
        requestId,
        method,
        path: shortenPath(call),
        model: call.get("model"),
        status: ending,
        ...(signal.aborted ? {} : toRefusal(call)),
        key: call.get("keyLabel"),
        seconds: Number(seconds.toFixed(3)),
        ...fields,
      });
      if (method === "POST") collectGarbageLater();
    });
  };
}

/** Makes the log fields of a failed request: enough to find the cause, but none of the request's content. */
function toRefusal({ error }: Call): { code?: string; param?: string | undefined } {
  if (error === undefined) return {};
  const { kind, param } = HearthError.from(error);
  return { code: kind, param: param && hideClientNames(param) };
}

/**
 * Removes names that the client chose from a parameter's path: names in quotation marks, and all names inside a schema
 * or a template's variables.
 */
function hideClientNames(param: string): string {
  return param.replaceAll(/\["(?:[^"\\]|\\.)*"\]/g, "[…]")
    .replace(
      /(\.schema|\.parameters|\.input_schema|_schema|_json|kwargs|logit_bias)[.[].*$/,
      "$1…",
    );
}

/**
 * Reads the JSON body of a request, if the queue has room for the request, and warns of fields that are known but not
 * served.
 *
 * @throws {HearthError} when no model is loaded, the model does not serve the endpoint, the queue is full, or the body
 * is invalid.
 */
export async function readRequest<S extends z.ZodType>(
  call: Call,
  { session, bodyLimits }: AppDeps,
  { path, schema, unserved }: {
    /** Path of the endpoint. If the model does not serve it, the request is refused before its body is read. */
    readonly path?: InferencePath;
    readonly schema: S;
    /** The kind of request, which decides which fields are not served. If absent, there are no warnings. */
    readonly unserved?: AnswerFamily;
  },
): Promise<z.output<S>> {
  const info = session.requireRoom();
  if (path !== undefined) requireEndpoint(info, path);
  const body = await readJson(call.req.raw, bodyLimits);
  const request = parseRequest(schema, body);
  if (unserved !== undefined) warn(call, ...findUnserved(body, unserved));
  return request;
}

/** Describes the caller on whose behalf a request's media are read. */
export function getMediaDeps(call: Call, { settings, mediaLimits }: AppDeps): MediaDeps {
  const { raw: request } = call.req;
  const { signal } = request;
  return { settings, mediaLimits, signal, isLocal: isLocal(request, call.env, settings) };
}

/** Answers with the error that a handler threw. An error that is not meant for clients is logged in full instead. */
export function answerError(thrown: unknown, call: Call): Response {
  const requestId = call.get("requestId");
  const isAbort = thrown instanceof Error && thrown.name === "AbortError";
  if (call.req.raw.signal.aborted || isAbort) {
    return new Response(null, { status: CLIENT_DISCONNECTED });
  }
  const error = HearthError.from(thrown);
  // A HearthError was made for the client, and is not logged. Any other error is a fault of this server.
  if (error !== thrown) {
    log.error("a request failed", { requestId, path: call.req.path, error: thrown });
  }
  const { status, body, headers } = makeErrorResponse(call.req.path, error);
  for (const [name, value] of Object.entries(headers)) call.header(name, value);
  return call.body(JSON.stringify(body), status as 400, { "content-type": "application/json" });
}

/** Maximum number of characters of a path in messages and log lines. */
export const MAX_SHOWN_PATH = 100;

const VALID_REQUEST_ID = /^[\w.:+/=-]{1,128}$/;

/** Chooses the request id: the one that the client sent, if it is valid, or else a new one. */
function chooseRequestId({ headers }: Request): string {
  const proposed = headers.get("x-request-id") ?? "";
  return VALID_REQUEST_ID.test(proposed) ? proposed : crypto.randomUUID();
}

/** Creates the id of a response, or of a part of one. */
export function newId(prefix: string): string {
  return `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`;
}

/** Returns a request's path without doubled or trailing slashes, and with llama.cpp's `/reranking` as `/rerank`. */
export function toPlainPath(request: Request): string {
  const { pathname } = new URL(request.url);
  return pathname.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "")
    .replace(/^((?:\/v1)?)\/reranking$/, "$1/rerank");
}

/** Shortens a request's path for messages and log lines. */
export function shortenPath({ req: { path } }: Call): string {
  return path.length <= MAX_SHOWN_PATH ? path : `${path.slice(0, MAX_SHOWN_PATH)}…`;
}

/** Owners of paths that this server does not have, by the pattern of the path. */
const OWNERS: readonly (readonly [path: RegExp, owner: string])[] = [
  [/^\/(props|slots|completion|infill|embedding|lora-adapters)$/, "llama.cpp's own API"],
  [/^\/api\/v\d(\/|$)/, "LM Studio's own API"],
  [/^\/api(\/|$)/, "Ollama's own API"],
  [/^\/v1(alpha|beta)\d?(\/|$)/, "Google's API"],
  [/^\/openai\/deployments(\/|$)/, "Azure's API"],
  [/^\/(version|ping|server_info|get_model_info|is_sleeping)$/, "another server's own API"],
];

/**
 * Explains what is wrong with an unknown path: it belongs to another server's API, or it is one of this server's paths
 * with a wrong beginning, such as `/openai/v1/embeddings`.
 *
 * @param known this server's paths, without `/v1`.
 * @returns the message for the client; `undefined` for any other path.
 */
export function explainForeignPath(call: Call, known: readonly string[]): string | undefined {
  const { path } = call.req;
  // The origin of this server, as the client addresses it.
  const { origin } = new URL(call.req.url);
  const owner = OWNERS.find(([pattern]) => pattern.test(path))?.[1];
  if (owner !== undefined) {
    return `This path belongs to ${owner}, which is not served here: configure the client for an ` +
      `OpenAI-compatible server with the base URL ${origin}/v1.`;
  }
  const [ending] = known.filter((each) => each !== "/" && path.endsWith(each))
    .sort((a, b) => b.length - a.length);
  if (ending === undefined || [ending, `/v1${ending}`].includes(path)) return undefined;
  // Anthropic's clients add `/v1` themselves.
  const base = ending.startsWith("/messages") ? origin : `${origin}/v1`;
  const shown = shortenPath(call);
  return `There is no endpoint ${shown}: this server has it at /v1${ending}, so set the client's ` +
    `base URL to ${base}.`;
}

/**
 * Renames the field that an error is about, in `param` and in the message. It is for requests that are converted before
 * they are checked: an error then names a field that the client did not send.
 *
 * @param toClientParam maps the path of a field in the converted request to the path of the client's field.
 */
export function renameParam(error: unknown, toClientParam: (param: string) => string): unknown {
  if (!(error instanceof HearthError) || error.param === undefined) return error;
  const param = toClientParam(error.param);
  const message = error.message.replaceAll(error.param, () => param);
  return new HearthError(error.kind, message, { param, cause: error.cause });
}

// Warnings about a request that is answered anyway: one log line, and the response's `warning` header.

/** Maximum number of characters of a warning. Part of it may come from the client, and be long. */
const MAX_CHARS = 200;
/** Maximum number of characters in a `warning` header. */
const MAX_HEADER_CHARS = 500;

/** Adds warnings to a request. Each warning should name the field and say what happens instead. */
export function warn(call: Call, ...warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  const shown = warnings.map((each) => shorten(each, MAX_CHARS));
  call.set("warnings", [...call.get("warnings") ?? [], ...shown]);
}

/** Warns that tools of these types, which other servers run themselves, are ignored. */
export function warnOfTools(call: Call, types: readonly string[]): void {
  if (types.length === 0) return;
  warn(call, `tools are ignored: this server does not have ${types.join(" ")}`);
}

/** Logs a request's warnings and sets the response's `warning` header, if there are any. */
function reportWarnings(call: Call): void {
  const warnings = call.get("warnings");
  if (warnings === undefined) return;
  log.warn("a request was answered with warnings", {
    requestId: call.get("requestId"),
    warnings: warnings.join("; "),
  });
  call.res.headers.set("warning", `299 hearth "${toQuotable(warnings.join("; "))}"`);
}

/**
 * Makes a warning safe for a quoted string in a header: part of it may come from the client, and hold line breaks or
 * other characters that headers must not have.
 */
function toQuotable(text: string): string {
  return shorten(text, MAX_HEADER_CHARS).replace(/["\\]/g, "'").replace(/[^\x20-\x7e]/g, "?");
}

function shorten(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars)}...`;
}
