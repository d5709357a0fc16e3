/**
 * URLs of servers.
 *
 * @module
 */

/** `http://host:port`, with brackets around an IPv6 address. */
export function formatUrl(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
