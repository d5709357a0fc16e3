/**
 * Fetches media over HTTP on behalf of a request, from allowed addresses only.
 *
 * A name is resolved once, and the connection goes to the address that was checked. So a name that changes its address
 * in between (DNS rebinding) has no effect. Every redirect is checked again.
 *
 * @module
 */
import { lookup } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import { HearthError } from "../base/errors.ts";
import { joinBytes } from "../base/join_bytes.ts";
import { classifyAddress, invalidMedia, type MediaPolicy, tooLargeMedia } from "./media_policy.ts";

const MAX_REDIRECTS = 5;
const REDIRECTS: readonly (number | undefined)[] = [301, 302, 303, 307, 308];

/**
 * Fetches a URL.
 *
 * @throws {HearthError} `invalid_media` when fetching it is not allowed, fails, or takes too long or too many bytes.
 */
export async function fetchMedia(
  reference: string,
  { policy, signal }: { policy: MediaPolicy; signal: AbortSignal },
): Promise<Uint8Array<ArrayBuffer>> {
  const timeout = AbortSignal.timeout(policy.maxTotalMs);
  const either = AbortSignal.any([signal, timeout]);
  try {
    return await follow(reference, policy, either);
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted) throw invalidMedia(`it took more than ${policy.maxTotalMs / 1000} s`);
    throw error;
  }
}

async function follow(
  reference: string,
  policy: MediaPolicy,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  let url = parse(reference);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const addresses = await resolve(url, policy, signal);
    const response = await connect(url, addresses, signal);
    if (REDIRECTS.includes(response.statusCode) && response.headers.location !== undefined) {
      response.destroy();
      url = parse(response.headers.location, url);
    } else if (response.statusCode === 200) {
      return await readBody(response, policy);
    } else {
      response.destroy();
      throw invalidMedia(`the server at ${url.host} answered with status ${response.statusCode}`);
    }
  }
  throw invalidMedia(`it was redirected more than ${MAX_REDIRECTS} times`);
}

function parse(reference: string, base?: URL): URL {
  const url = URL.parse(reference, base);
  if (url === null) throw invalidMedia("it is not a URL");
  if (url.protocol === "http:" || url.protocol === "https:") return url;
  throw invalidMedia(`a redirect leads to the scheme ${url.protocol}, which is not followed`);
}

/** Resolves the addresses to connect to. Every address of the name must be allowed. */
async function resolve(url: URL, policy: MediaPolicy, signal: AbortSignal): Promise<string[]> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const addresses = isIP(host) !== 0 ? [host] : await Promise.race([lookUp(host), aborted(signal)]);
  for (const address of addresses) checkAddress(address, policy);
  return addresses;
}

async function lookUp(host: string): Promise<string[]> {
  try {
    const found = await lookup(host, { all: true });
    if (found.length > 0) return found.map(({ address }) => address);
  } catch {
    // For the caller, an unknown name and an unreachable resolver are the same.
  }
  throw invalidMedia(`the name ${host} cannot be resolved`);
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function checkAddress(address: string, { isLocal, allowPrivate }: MediaPolicy): void {
  const kind = classifyAddress(address);
  if (kind === "forbidden") {
    throw invalidMedia(
      "it leads to a link-local, metadata or reserved address, which are never fetched from",
    );
  }
  if (kind === "public" || isLocal || allowPrivate) return;
  throw invalidMedia(
    "it leads to a private or loopback address; start the server with --allow-private-media to allow these",
  );
}

/**
 * Sends the request to the first address that can be reached: names often have an IPv6 address that nobody listens on
 * or no route leads to.
 *
 * @throws {HearthError} `invalid_media` for the last address, when none can be reached.
 */
export async function connect(
  url: URL,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const last = addresses.at(-1)!;
  for (const address of addresses.slice(0, -1)) {
    try {
      return await connectTo(url, address, signal);
    } catch {
      signal.throwIfAborted();
    }
  }
  return await connectTo(url, last, signal);
}

function connectTo(url: URL, address: string, signal: AbortSignal): Promise<IncomingMessage> {
  const isSecure = url.protocol === "https:";
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const fail = (error: Error) =>
    reject(invalidMedia(`${url.host} cannot be reached: ${error.message}`, error));
  const request = (isSecure ? requestHttps : requestHttp)({
    host: address,
    port: url.port || (isSecure ? 443 : 80),
    path: `${url.pathname}${url.search}`,
    headers: { host: url.host, "accept-encoding": "identity", "user-agent": "hearth" },
    agent: false,
    ...(isSecure && isIP(url.hostname) === 0 && { servername: url.hostname }),
  });
  request.once("response", resolve);
  request.on("error", fail);
  const onAbort = () => {
    request.destroy();
    reject(signal.reason);
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  request.end();
  return promise;
}

async function readBody(
  response: IncomingMessage,
  policy: MediaPolicy,
): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(response.headers["content-length"] ?? 0) > policy.maxBytes) {
    response.destroy();
    throw tooLargeMedia(policy);
  }
  const chunks: Uint8Array[] = [];
  let numBytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Uint8Array>) {
      numBytes += chunk.length;
      if (numBytes > policy.maxBytes) throw tooLargeMedia(policy);
      chunks.push(chunk);
    }
  } catch (error) {
    response.destroy();
    if (error instanceof HearthError) throw error;
    throw invalidMedia("the connection ended before its last byte", error);
  }
  return joinBytes(chunks);
}
