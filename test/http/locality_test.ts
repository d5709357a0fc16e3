import assert from "node:assert/strict";
import { isLocal } from "../../src/server/http/locality.ts";

interface Case {
  readonly what: string;
  readonly isLocal: boolean;
  readonly from?: string;
  readonly httpVersion?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly trustedProxies?: readonly string[];
}

const PROXY = "10.0.0.2";

const CASES: readonly Case[] = [
  { what: "a program on this machine", isLocal: true },
  {
    what: "a program on this machine, over IPv6",
    isLocal: true,
    from: "::1",
    headers: { host: "[::1]:10100" },
  },
  { what: "a program on this machine, over mapped IPv4", isLocal: true, from: "::ffff:127.0.0.1" },
  {
    what: "a program that uses another loopback name",
    isLocal: true,
    headers: { host: "app.localhost" },
  },
  {
    what: "another machine",
    isLocal: false,
    from: "192.168.0.7",
    headers: { host: "192.168.0.2:10100" },
  },
  { what: "another machine that says localhost", isLocal: false, from: "192.168.0.7" },
  { what: "a rebinding page", isLocal: false, headers: { host: "rebind.example" } },
  {
    what: "a caller that uses this machine's address as host",
    isLocal: false,
    headers: { host: "192.168.0.2" },
  },
  { what: "a request without a host", isLocal: false, headers: { host: "" } },
  {
    what: "a request with X-Forwarded-For",
    isLocal: false,
    headers: { "x-forwarded-for": "127.0.0.1" },
  },
  {
    what: "a request with X-Forwarded-Host",
    isLocal: false,
    headers: { "x-forwarded-host": "localhost" },
  },
  { what: "a request with X-Real-IP", isLocal: false, headers: { "x-real-ip": "127.0.0.1" } },
  { what: "a request with Forwarded", isLocal: false, headers: { forwarded: "for=127.0.0.1" } },
  { what: "a request with Via", isLocal: false, headers: { via: "1.1 proxy" } },
  {
    what: "nginx with its default settings, which speaks HTTP/1.0",
    isLocal: false,
    httpVersion: "1.0",
  },
  {
    what: "a trusted proxy on this machine that names this machine as the caller",
    isLocal: true,
    headers: { "x-forwarded-for": "127.0.0.1" },
    trustedProxies: ["127.0.0.1"],
  },
  {
    what: "a trusted proxy in a range, over HTTP/1.0, with Via",
    isLocal: true,
    from: "127.0.0.2",
    httpVersion: "1.0",
    headers: { "x-forwarded-for": "::1", via: "1.0 proxy" },
    trustedProxies: ["127.0.0.0/8"],
  },
  {
    what:
      "nginx 1.30 with its default settings, HTTP/1.1 without forwarding headers, as a trusted proxy",
    isLocal: false,
    headers: { host: "127.0.0.1:10100" },
    trustedProxies: ["127.0.0.1"],
  },
  {
    what: "a trusted proxy on another machine, for a caller on that machine",
    isLocal: false,
    from: PROXY,
    headers: { "x-forwarded-for": "127.0.0.1" },
    trustedProxies: [PROXY],
  },
  {
    what: "a trusted proxy that names another machine",
    isLocal: false,
    from: PROXY,
    headers: { "x-forwarded-for": "203.0.113.9" },
    trustedProxies: [PROXY],
  },
  {
    what: "a trusted proxy whose caller claims to be local",
    isLocal: false,
    from: PROXY,
    headers: { "x-forwarded-for": "127.0.0.1, 203.0.113.9" },
    trustedProxies: [PROXY],
  },
  {
    what: "two trusted proxies in a row",
    isLocal: false,
    from: PROXY,
    headers: { "x-forwarded-for": "127.0.0.1, 203.0.113.9, 10.0.0.3" },
    trustedProxies: ["10.0.0.0/8"],
  },
  {
    what: "a trusted proxy that names nobody",
    isLocal: false,
    from: PROXY,
    trustedProxies: [PROXY],
  },
  {
    what: "a trusted proxy on this machine, for a caller on another",
    isLocal: false,
    headers: { "x-forwarded-for": "203.0.113.9" },
    trustedProxies: ["127.0.0.1"],
  },
  {
    what: "a proxy that is not trusted",
    isLocal: false,
    from: "10.9.9.9",
    headers: { "x-forwarded-for": "127.0.0.1" },
    trustedProxies: [PROXY],
  },
];

for (
  const { what, from = "127.0.0.1", httpVersion = "1.1", trustedProxies = [], ...rest } of CASES
) {
  Deno.test(`isLocal() is ${rest.isLocal} for ${what}`, () => {
    const headers = { host: "localhost:10100", ...rest.headers };
    const request = new Request("http://localhost:10100/", { headers });
    const caller = { callerAddress: from, httpVersion };
    assert.equal(isLocal(request, caller, { trustedProxies }), rest.isLocal);
  });
}
