/**
 * Parsers for the hosts, proxies and origins that flags name.
 *
 * @module
 */
import { isIP } from "node:net";
import { UsageError } from "./flag.ts";

export function parseHost(item: string, source: string): string {
  const url = URL.parse(`http://${isIP(item) === 6 ? `[${item}]` : item}/`);
  if (item !== "" && url !== null && isIP(item) === 6) return url.hostname;
  if (item !== "" && url?.host === item.toLowerCase() && url.port === "") return url.hostname;
  throw new UsageError(
    `${source} wants a host name without scheme or port, such as hearth.example.org, got "${item}".`,
  );
}

export function parseProxy(item: string, source: string): string {
  const [address = "", bits, ...rest] = item.split("/");
  const version = isIP(address);
  const most = version === 6 ? 128 : 32;
  const isRange = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most);
  if (version !== 0 && isRange && rest.length === 0) return item;
  throw new UsageError(`${source} wants an address or a range such as 10.0.0.0/8, got "${item}".`);
}

export function parseOrigin(item: string, source: string): string {
  if (item === "*" || URL.parse(item)?.origin === item || isAppOrigin(item)) return item;
  throw new UsageError(
    `${source} wants an origin such as https://example.org, or *, got "${item}".`,
  );
}

/** Whether it is one of an application that shows pages of its own: `app://obsidian.md`, `chrome-extension://…`. */
function isAppOrigin(item: string): boolean {
  return /^[a-z][a-z\d+.-]*:\/\/[\w.-]+$/.test(item) && URL.parse(item)?.origin === "null";
}
