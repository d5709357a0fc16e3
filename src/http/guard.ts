/**
 * Who may talk to the server: the Host a request names, the Origin it comes from, the key it carries.
 *
 * @module
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { ServerSettings } from "../config.ts";
import { HearthError } from "../errors.ts";

/** The settings that decide it. */
export type GuardSettings = Pick<
  ServerSettings,
  "host" | "allowedHosts" | "corsOrigins" | "apiKey"
>;

/** Whether an address or host name, without port, means this machine. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "");
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" ||
    /^(::ffff:)?127(\.\d{1,3}){3}$/.test(name) || /^::ffff:7f[\da-f]{2}:[\da-f]{1,4}$/.test(name);
}

/** What proxies add to the requests that they pass on. */
const PROXY_HEADERS = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/**
 * Whether a proxy passed a request on. A connection from this machine then says nothing of the caller: a proxy on it
 * makes all the world look local.
 */
export function isPassedOn({ headers }: Request): boolean {
  return PROXY_HEADERS.some((name) => headers.has(name));
}

/**
 * Refuses requests meant for another host, so that a web page cannot reach a server on this machine through
 * a name of its own that it lets point here (DNS rebinding).
 *
 * @throws {HearthError} `forbidden`.
 */
export function checkHost(request: Request, settings: GuardSettings): void {
  if (!isLoopback(settings.host)) return;
  const name = URL.parse(`http://${hostOf(request)}`)?.hostname ?? "";
  const isAllowed = settings.allowedHosts.some((allowed) => allowed.toLowerCase() === name);
  if (isLoopback(name) || isAllowed) return;
  throw new HearthError(
    "forbidden",
    `This server does not serve the host ${JSON.stringify(hostOf(request).slice(0, 100))}. ` +
      "Start it with --allowed-host to add one.",
  );
}

/**
 * Refuses requests that a web page of another origin makes, unless that origin is allowed; of an allowed one,
 * refuses those a browser would send without asking first (a preflight).
 *
 * @returns the foreign origin that is allowed, or `undefined` when there is none.
 * @throws {HearthError} `forbidden`, `unsupported_media_type`.
 */
export function checkOrigin(request: Request, settings: GuardSettings): string | undefined {
  const origin = request.headers.get("origin");
  if (origin === null || isOwnOrigin(origin, request)) return undefined;
  if (!settings.corsOrigins.includes("*") && !settings.corsOrigins.includes(origin)) {
    throw new HearthError(
      "forbidden",
      `Requests from the origin ${JSON.stringify(origin.slice(0, 100))} are not allowed. ` +
        "Start the server with --cors-origin to allow it.",
    );
  }
  const contentType = request.headers.get("content-type") ?? "none";
  const isAskedFirst = /^(application\/json|multipart\/form-data)\s*(;|$)/i.test(contentType);
  if (request.method === "POST" && !isAskedFirst) {
    throw new HearthError(
      "unsupported_media_type",
      "Content-Type: from another origin, want application/json or multipart/form-data, saw " +
        `${JSON.stringify(contentType.slice(0, 100))}.`,
    );
  }
  return origin;
}

/** @throws {HearthError} `invalid_api_key` when a key is set and the request's bearer token is not it. */
export function checkApiKey(request: Request, apiKey: string | undefined): void {
  if (apiKey === undefined) return;
  const token = request.headers.get("authorization")?.match(/^Bearer +(.+)$/i)?.[1];
  if (token !== undefined && timingSafeEqual(digest(token), digest(apiKey))) return;
  throw new HearthError(
    "invalid_api_key",
    token === undefined
      ? "This server wants an API key: send it as Authorization: Bearer <key>."
      : "The API key is not the one this server wants.",
  );
}

/** Both sides hashed, so that their lengths do not show either. */
function digest(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}

function hostOf(request: Request): string {
  return request.headers.get("host") ?? new URL(request.url).host;
}

function isOwnOrigin(origin: string, request: Request): boolean {
  const host = URL.parse(origin)?.host;
  return host !== undefined && host === URL.parse(`http://${hostOf(request)}`)?.host;
}
