/**
 * Decides whether a request comes from this machine. Only local callers may stop the server, read files, or have
 * private addresses fetched.
 *
 * @module
 */
import { BlockList, isIP } from "node:net";
import type { ServerSettings } from "../../base/config.ts";
import type { Exchange } from "./connection/node_bridge.ts";

/** Whether an address or host name, without its port, refers to this machine. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "").replace(/\.$/, "");
  return name === "localhost" || name.endsWith(".localhost") || name === "::1" ||
    /^(::ffff:)?127(\.\d{1,3}){3}$/.test(name) || /^::ffff:7f[\da-f]{2}:[\da-f]{1,4}$/.test(name);
}

/** Headers that proxies add to forwarded requests. */
export const PROXY_HEADERS = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-real-ip",
  "via",
];

/** The connection and headers of a request. */
type Caller = Pick<Exchange, "callerAddress" | "httpVersion">;

/**
 * Whether the caller is on this machine. The connection must come from this machine, and the request must be addressed
 * to it. Nothing may show that a proxy forwarded the request; some proxies speak HTTP/1.0 by default. If the connection
 * comes from a trusted proxy on this machine, X-Forwarded-For names the caller. The header of a proxy on another
 * machine is ignored: a loopback address in it would mean that machine.
 */
export function isLocal(
  request: Request,
  { callerAddress, httpVersion }: Caller,
  { trustedProxies }: Pick<ServerSettings, "trustedProxies">,
): boolean {
  if (!isLoopback(callerAddress) || !isLoopback(getHostName(request))) return false;
  const isTrusted = makeAddressTest(trustedProxies);
  if (isTrusted(callerAddress)) {
    const hops = (request.headers.get("x-forwarded-for") ?? "").split(",").map((hop) => hop.trim());
    // Takes the last entry that was not added by a trusted proxy; earlier ones can be forged.
    return isLoopback(hops.findLast((hop) => !isTrusted(hop)) ?? hops[0]!);
  }
  const isPassedOn = httpVersion === "1.0" ||
    PROXY_HEADERS.some((name) => request.headers.has(name));
  return !isPassedOn;
}

/** The host that a request names, without its port; empty if invalid. */
export function getHostName(request: Request): string {
  return URL.parse(`http://${getHost(request)}`)?.hostname ?? "";
}

/** The host that a request names, with its port. */
export function getHost(request: Request): string {
  return request.headers.get("host") ?? new URL(request.url).host;
}

/** Creates a test for whether an address is listed. A list holds addresses and ranges such as `10.0.0.0/8`. */
function makeAddressTest(listed: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const range of listed) {
    const [address = "", bits] = range.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return (address) => {
    const plain = address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/^\[|\]$/g, "");
    const version = isIP(plain);
    return version !== 0 && list.check(plain, version === 6 ? "ipv6" : "ipv4");
  };
}
