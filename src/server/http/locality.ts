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
 * Whether the caller is on this machine. The connection must come from this machine, and the request's host must be a
 * loopback name. If the connection comes from a trusted proxy on this machine, `x-forwarded-for` names the caller. From
 * any other client, the request must not look forwarded: it has no header of a proxy, and is not HTTP/1.0, which some
 * proxies use by default. The header of a proxy on another machine does not count: a loopback address in it would mean
 * that machine.
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
    // The caller is the last address that is not a trusted proxy's. Clients can forge the addresses before it.
    return isLoopback(hops.findLast((hop) => !isTrusted(hop)) ?? hops[0]!);
  }
  const isPassedOn = httpVersion === "1.0" ||
    PROXY_HEADERS.some((name) => request.headers.has(name));
  return !isPassedOn;
}

/** Returns the host that a request names, without its port; empty if invalid. */
export function getHostName(request: Request): string {
  return URL.parse(`http://${getHost(request)}`)?.hostname ?? "";
}

/** Returns the host that a request names, with its port. */
export function getHost(request: Request): string {
  return request.headers.get("host") ?? new URL(request.url).host;
}

/** Makes a function that tells whether an address is in a list of addresses and ranges such as `10.0.0.0/8`. */
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
