/**
 * Request guards: allowed hosts, allowed origins, API keys.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import type { ApiKey, ListenSettings, ServerSettings } from "../../base/config.ts";
import { isPageFile } from "./pages/page.ts";
import type { Call, Env } from "./route.ts";
import { createHash, timingSafeEqual } from "node:crypto";
import { HearthError } from "../../base/errors.ts";
import { isIP } from "node:net";
import { getHost, getHostName, isLoopback } from "./locality.ts";

/** Returns a path and the same path below `/v1`. The root has no second path. */
export function listBothPaths(path: string): string[] {
  return path === "/" ? ["/"] : [path, `/v1${path}`];
}

/** Rejects requests from hosts or origins that are not allowed, and answers CORS preflights. */
export function guard(settings: ListenSettings): MiddlewareHandler<Env> {
  return async (call, next) => {
    checkHost(call.req.raw, settings);
    const origin = checkOrigin(call.req.raw, settings);
    const isPreflight = call.req.method === "OPTIONS" &&
      call.req.header("access-control-request-method") !== undefined;
    if (isPreflight && origin !== undefined) call.res = preflightAnswer(call);
    else await next();
    if (origin === undefined) return;
    call.res.headers.set("access-control-allow-origin", origin);
    call.res.headers.set("access-control-expose-headers", "x-request-id, retry-after, warning");
    call.res.headers.append("vary", "origin");
  };
}

function preflightAnswer(call: Call): Response {
  return call.body(null, 204, {
    "access-control-allow-methods": "GET, HEAD, POST, DELETE",
    "access-control-allow-headers": call.req.header("access-control-request-headers") ?? "",
    "access-control-max-age": "600",
  });
}

/**
 * Requires an API key on all paths except two: `/health`, which monitors call without a key, and the page, which asks
 * its user for the key.
 */
export function requireApiKey(settings: ListenSettings): MiddlewareHandler<Env> {
  return async (call, next) => {
    const { path, raw } = call.req;
    // `POST /` computes embeddings, so it is not the page.
    const isPage = isPageFile(path) && raw.method !== "POST";
    const isOpen = isPage || listBothPaths("/health").includes(path);
    if (!isOpen) call.set("keyLabel", checkApiKey(raw, settings.apiKeys));
    await next();
  };
}

/** The sub-protocol in which OpenAI's client sends the key: browsers cannot set other headers on a WebSocket. */
const KEY_PROTOCOL = /(?:^|[\s,])openai-insecure-api-key\.([^\s,]+)/;

/**
 * Checks a request's key: its bearer token, its `x-api-key`, or a WebSocket's sub-protocol.
 *
 * @returns the key's label; `undefined` if no key is required.
 * @throws {HearthError} `invalid_api_key` when keys are set and the request carries none of them.
 */
function checkApiKey(request: Request, apiKeys: readonly ApiKey[]): string | undefined {
  if (apiKeys.length === 0) return undefined;
  const sent = readKey(request);
  const found = findKey(sent, apiKeys);
  if (found !== undefined) return found.label;
  throw new HearthError(
    "invalid_api_key",
    sent === undefined
      ? "This server requires an API key: send it as Authorization: Bearer <key>."
      : "The API key that was sent is not one of this server's keys.",
  );
}

/** Whether a request carries one of the keys. */
export function hasKey(request: Request, apiKeys: readonly ApiKey[]): boolean {
  return findKey(readKey(request), apiKeys) !== undefined;
}

function readKey({ headers }: Request): string | undefined {
  return headers.get("authorization")?.match(/^Bearer +(.+)$/i)?.[1] ??
    headers.get("x-api-key") ??
    headers.get("sec-websocket-protocol")?.match(KEY_PROTOCOL)?.[1];
}

/** Finds the key that was sent. It compares all keys, so that the time taken does not reveal which one matched. */
function findKey(sent: string | undefined, apiKeys: readonly ApiKey[]): ApiKey | undefined {
  if (sent === undefined) return undefined;
  const given = digest(sent);
  return apiKeys.filter(({ key }) => timingSafeEqual(given, digest(key)))[0];
}

/** Hashes a key, so that the comparison does not reveal its length either. */
function digest(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}

/** The settings that decide which hosts and origins are allowed. */
type GuardSettings = Pick<
  ServerSettings,
  "host" | "allowedHosts" | "corsOrigins"
>;

/**
 * Refuses requests whose `Host` is not this server. Otherwise a web page could reach a server on this machine through a
 * domain of its own that resolves to the loopback address (DNS rebinding). If `--allowed-host` is given, only the hosts
 * that it names and loopback names are served, whatever address the server listens on.
 *
 * @throws {HearthError} `forbidden`.
 */
function checkHost(request: Request, settings: GuardSettings): void {
  const name = getHostName(request);
  const { allowedHosts } = settings;
  if (isLoopback(name) || allowedHosts.some((allowed) => allowed.toLowerCase() === name)) return;
  const isOpen = !isLoopback(settings.host) && allowedHosts.length === 0;
  // An IP address or the machine's own name cannot be rebound by a page.
  if (isOpen && (isAddress(name) || isOwnName(name))) return;
  throw new HearthError(
    "forbidden",
    `This server does not serve the host ${JSON.stringify(getHost(request).slice(0, 100))}. ` +
      "Start it with --allowed-host to add a host.",
  );
}

function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, "")) !== 0;
}

/** Whether `name` is this machine's host name: in full, its first label, or with `.local`. */
function isOwnName(name: string): boolean {
  const own = Deno.hostname().toLowerCase();
  return name === own || name === `${own}.local` || name === own.split(".")[0];
}

/**
 * Refuses requests of web pages from other origins, unless their origin is allowed. From an allowed origin, it still
 * refuses POST requests with a content type that browsers send without a preflight.
 *
 * @returns the other origin, if it is allowed; `undefined` for a same-origin request or one without an origin.
 * @throws {HearthError} `forbidden`, `unsupported_media_type`.
 */
function checkOrigin(request: Request, settings: GuardSettings): string | undefined {
  const origin = request.headers.get("origin");
  if (origin === null || isOwnOrigin(origin, request)) return undefined;
  if (!settings.corsOrigins.includes("*") && !settings.corsOrigins.includes(origin)) {
    throw new HearthError(
      "forbidden",
      `Requests from the origin ${JSON.stringify(origin.slice(0, 100))} are not allowed. ` +
        "Start the server with --cors-origin to allow an origin.",
    );
  }
  const contentType = request.headers.get("content-type") ?? "none";
  const needsPreflight = /^(application\/json|multipart\/form-data)\s*(;|$)/i.test(contentType);
  if (request.method === "POST" && !needsPreflight) {
    throw new HearthError(
      "unsupported_media_type",
      "Content-Type: want application/json or multipart/form-data from another origin, saw " +
        `${JSON.stringify(contentType.slice(0, 100))}.`,
    );
  }
  return origin;
}

function isOwnOrigin(origin: string, request: Request): boolean {
  const host = URL.parse(origin)?.host;
  return host !== undefined && host === URL.parse(`http://${getHost(request)}`)?.host;
}
