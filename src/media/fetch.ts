/**
 * Fetches media over HTTP on behalf of a request, from allowed addresses only.
 *
 * A name is resolved once, and the connection goes to the address that was checked. So a name that changes its address
 * in between (DNS rebinding) has no effect. Every redirect is checked again.
 *
 * @see https://www.iana.org/assignments/iana-ipv4-special-registry and its IPv6 companion
 *
 * @module
 */
import { lookup } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, isIPv4 } from "node:net";
import { HearthError, invalidMedia } from "../base/errors.ts";
import { joinBytes } from "../base/bytes.ts";

/** Which references the server follows, and their limits. */
export interface MediaPolicy {
  /** Whether the caller is on this machine, and so may refer to the machine's files and to addresses of its network. */
  readonly isLocal: boolean;
  /** Whether addresses of private networks and of this machine are allowed anyway. */
  readonly allowPrivate: boolean;
  /** Folder whose files callers on other machines may also refer to. */
  readonly mediaDir: string | undefined;
  readonly maxBytes: number;
  /** Longest time to wait for all bytes of a reference. */
  readonly maxTotalMs: number;
}

/** The error for media over the limit. */
export function tooLargeMedia({ maxBytes }: MediaPolicy): HearthError {
  return invalidMedia(
    `it has more than the ${Math.floor(maxBytes / 2 ** 20)} MiB that are allowed`,
  );
}

const MAX_REDIRECTS = 5;
const REDIRECTS: readonly (number | undefined)[] = [301, 302, 303, 307, 308];

/**
 * Fetches a URL.
 *
 * @throws {HearthError} `invalid_media` when fetching it is not allowed, fails, or takes too long or too many bytes. The
 * message is a clause that says why.
 */
export async function fetchMedia(
  reference: string,
  { policy, signal }: { policy: MediaPolicy; signal: AbortSignal },
): Promise<Uint8Array<ArrayBuffer>> {
  const timeout = AbortSignal.timeout(policy.maxTotalMs);
  const anySignal = AbortSignal.any([signal, timeout]);
  try {
    return await follow(reference, policy, anySignal);
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
  const addresses = isIP(host) !== 0
    ? [host]
    : await Promise.race([lookUp(host), rejectOnAbort(signal)]);
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

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function checkAddress(address: string, { isLocal, allowPrivate }: MediaPolicy): void {
  const kind = classifyAddress(address);
  if (kind === "forbidden") {
    throw invalidMedia(
      "it leads to a link-local, metadata or reserved address, and these are never fetched from",
    );
  }
  if (kind === "public" || isLocal || allowPrivate) return;
  throw invalidMedia(
    "it leads to a private or loopback address; start the server with --allow-private-media to allow these",
  );
}

/**
 * Sends the request to the first address that can be reached. A name often has an IPv6 address without a listener or a
 * route.
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

/**
 * Kinds of addresses. `local` addresses belong to this machine or its network; nothing is ever fetched from `forbidden`
 * ones.
 */
type AddressKind = "public" | "local" | "forbidden";

type Range = readonly [prefix: string, bits: number, kind: AddressKind];

/** Ranges of IPv4 addresses. The first one that contains an address decides. */
const IPV4_RANGES: readonly Range[] = [
  // Metadata services of clouds outside the link-local range.
  ["100.100.100.200", 32, "forbidden"],
  ["168.63.129.16", 32, "forbidden"],
  ["192.0.0.0", 24, "forbidden"],
  ["169.254.0.0", 16, "forbidden"],
  ["0.0.0.0", 8, "local"],
  ["10.0.0.0", 8, "local"],
  ["100.64.0.0", 10, "local"],
  ["127.0.0.0", 8, "local"],
  ["172.16.0.0", 12, "local"],
  ["192.168.0.0", 16, "local"],
  ["198.18.0.0", 15, "local"],
  ["224.0.0.0", 3, "forbidden"],
];

const IPV6_RANGES: readonly Range[] = [
  // Metadata services of clouds outside the link-local range.
  ["fd00:ec2::254", 128, "forbidden"],
  ["fd20:ce::254", 128, "forbidden"],
  // Translation to IPv4 addresses within a network (RFC 8215).
  ["64:ff9b:1::", 48, "local"],
  ["::", 128, "local"],
  ["::1", 128, "local"],
  ["fc00::", 7, "local"],
  ["fec0::", 10, "local"],
  ["fe80::", 10, "forbidden"],
  ["ff00::", 8, "forbidden"],
  // Teredo, whose IPv4 address is obfuscated.
  ["2001::", 32, "forbidden"],
];
/** The addresses of the public internet. Addresses outside this range and all lists are reserved. */
const IPV6_GLOBAL = { prefix: "2000::", bits: 3 };

/** Ranges of IPv6 addresses that contain an IPv4 address, in four bytes beginning at `at`. */
const EMBEDDED: readonly { readonly prefix: string; readonly bits: number; readonly at: number }[] =
  [
    { prefix: "::ffff:0:0", bits: 96, at: 12 },
    // Stateless translation (RFC 7915).
    { prefix: "::ffff:0:0:0", bits: 96, at: 12 },
    { prefix: "64:ff9b::", bits: 96, at: 12 },
    { prefix: "2002::", bits: 16, at: 2 },
    { prefix: "::", bits: 96, at: 12 },
  ];

/**
 * Classifies an IP address.
 *
 * @param address as the resolver gives it, perhaps with an IPv6 zone.
 * @example
 * ```ts
 * import { classifyAddress } from "./fetch.ts";
 * classifyAddress("169.254.169.254"); // "forbidden"
 * classifyAddress("::ffff:10.0.0.1"); // "local"
 * ```
 */
export function classifyAddress(address: string): AddressKind {
  if (isIPv4(address)) return findKind(parseIpv4(address), IPV4_RANGES, parseIpv4);
  const bytes = parseIpv6(address.replace(/%.*$/, ""));
  if (bytes === undefined) return "forbidden";
  const own = IPV6_RANGES.find(([prefix, bits]) => hasPrefix(bytes, parseIpv6(prefix)!, bits));
  if (own !== undefined) return own[2];
  const embedded = EMBEDDED.find(({ prefix, bits }) => hasPrefix(bytes, parseIpv6(prefix)!, bits));
  if (embedded === undefined) {
    const { prefix, bits } = IPV6_GLOBAL;
    return hasPrefix(bytes, parseIpv6(prefix)!, bits) ? "public" : "forbidden";
  }
  return classifyAddress(bytes.slice(embedded.at, embedded.at + 4).join("."));
}

function findKind(
  bytes: readonly number[],
  ranges: readonly Range[],
  read: (prefix: string) => readonly number[],
): AddressKind {
  return ranges.find(([prefix, bits]) => hasPrefix(bytes, read(prefix), bits))?.[2] ?? "public";
}

function parseIpv4(address: string): number[] {
  return address.split(".").map(Number);
}

/** The 16 bytes of an address in any spelling; `undefined` if invalid. */
function parseIpv6(address: string): number[] | undefined {
  // The URL parser accepts all spellings, and normalises them to hexadecimal groups.
  const host = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1);
  if (host === undefined) return undefined;
  const [head = "", tail] = host.split("::");
  const groups = (text: string) => text === "" ? [] : text.split(":");
  const before = groups(head);
  const after = groups(tail ?? "");
  const zeros = new Array<string>(8 - before.length - after.length).fill("0");
  return [...before, ...zeros, ...after].flatMap((group) => {
    const value = parseInt(group, 16);
    return [value >> 8, value & 255];
  });
}

function hasPrefix(bytes: readonly number[], prefix: readonly number[], bits: number): boolean {
  return bytes.every((byte, at) => {
    const left = Math.max(0, Math.min(8, bits - 8 * at));
    const mask = 0xff00 >> left & 0xff;
    return ((byte ^ prefix[at]!) & mask) === 0;
  });
}
