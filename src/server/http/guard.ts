/**
 * Checks the Host and the Origin of requests.
 *
 * @module
 */
import { isIP } from "node:net";
import type { ServerSettings } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";
import { getHost, getHostName, isLoopback } from "./locality.ts";

/** The settings that decide it. */
type GuardSettings = Pick<
  ServerSettings,
  "host" | "allowedHosts" | "corsOrigins"
>;

/**
 * Refuses requests meant for another host, so that a web page cannot reach a server on this machine through a name of
 * its own that resolves to it (DNS rebinding). Once --allowed-host is given, only those it names and loopback names are
 * served, whatever the address.
 *
 * @throws {HearthError} `forbidden`.
 */
export function checkHost(request: Request, settings: GuardSettings): void {
  const name = getHostName(request);
  const { allowedHosts } = settings;
  if (isLoopback(name) || allowedHosts.some((allowed) => allowed.toLowerCase() === name)) return;
  const isOpen = !isLoopback(settings.host) && allowedHosts.length === 0;
  // Pages cannot rebind an IP address, nor this machine's own name.
  if (isOpen && (isAddress(name) || isOwnName(name))) return;
  throw new HearthError(
    "forbidden",
    `This server does not serve the host ${JSON.stringify(getHost(request).slice(0, 100))}. ` +
      "Start it with --allowed-host to add one.",
  );
}

function isAddress(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, "")) !== 0;
}

/** `box`, `box.local`, and the machine's own host name. */
function isOwnName(name: string): boolean {
  const own = Deno.hostname().toLowerCase();
  return name === own || name === `${own}.local` || name === own.split(".")[0];
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
  const needsPreflight = /^(application\/json|multipart\/form-data)\s*(;|$)/i.test(contentType);
  if (request.method === "POST" && !needsPreflight) {
    throw new HearthError(
      "unsupported_media_type",
      "Content-Type: from another origin, want application/json or multipart/form-data, saw " +
        `${JSON.stringify(contentType.slice(0, 100))}.`,
    );
  }
  return origin;
}

function isOwnOrigin(origin: string, request: Request): boolean {
  const host = URL.parse(origin)?.host;
  return host !== undefined && host === URL.parse(`http://${getHost(request)}`)?.host;
}
