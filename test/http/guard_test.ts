import assert from "node:assert/strict";
import { isLoopback } from "../../src/server/http/locality.ts";
import type { ServerSettings } from "../../src/base/config.ts";
import { configureLog } from "../../src/base/log.ts";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";
import { LOCAL_CALLER, TestApp } from "../fixtures/servers/server.ts";

/** The status of a request for a path that always answers. */
async function status(app: TestApp, headers: Record<string, string>, init: RequestInit = {}) {
  const response = await app.request("/openapi.json", { ...init, headers });
  return response.status;
}

Deno.test("isLoopback() knows the names of this machine", () => {
  for (
    const host of [
      "localhost",
      "LOCALHOST.",
      "a.localhost",
      "127.0.0.1",
      "127.9.9.9",
      "::1",
      "[::1]",
      "::ffff:127.0.0.1",
      "[::ffff:7f00:1]",
    ]
  ) assert.ok(isLoopback(host), host);
  for (
    const host of [
      "0.0.0.0",
      "::",
      "192.168.0.1",
      "example.org",
      "localhost.example.org",
      "127.0.0.1.example.org",
      "1127.0.0.1",
      "notlocalhost",
      "",
    ]
  ) assert.ok(!isLoopback(host), host);
});

Deno.test("guard: a loopback server serves only hosts that are loopback or allowed", async () => {
  const app = new TestApp({ settings: { allowedHosts: ["Hearth.example"] } });
  for (
    const host of [
      "localhost",
      "127.0.0.1:10100",
      "[::1]:10100",
      "hearth.example:1",
      "HEARTH.example",
    ]
  ) assert.equal(await status(app, { host }), 200, host);
  for (const host of ["example.org", "hearth.example.org", "192.168.0.1:10100", "", "a b"]) {
    assert.equal(await status(app, { host }), 403, host);
  }
});

Deno.test("guard: on an open address, a host name that is not this machine's own is refused", async () => {
  const app = new TestApp({ settings: { host: "0.0.0.0" } });
  for (const host of ["192.168.0.7:10100", "[2001:db8::1]", "localhost:1", Deno.hostname()]) {
    assert.equal(await status(app, { host }), 200, host);
  }
  for (const host of ["example.org", "192.168.0.7.example.org", "rebind.attacker.example", ""]) {
    assert.equal(await status(app, { host }), 403, host);
  }
});

Deno.test("guard: --allowed-host is enforced on an open address as well", async () => {
  const app = new TestApp({ settings: { host: "0.0.0.0", allowedHosts: ["hearth.example"] } });
  for (const host of ["hearth.example:80", "localhost"]) {
    assert.equal(await status(app, { host }), 200, host);
  }
  for (const host of ["example.org", "192.168.0.7", Deno.hostname()]) {
    assert.equal(await status(app, { host }), 403, host);
  }
});

Deno.test("guard: a foreign origin is refused, the server's own is not", async () => {
  const app = new TestApp();
  const host = "localhost:10100";
  assert.equal(await status(app, { host, origin: "http://localhost:10100" }), 200);
  for (const origin of ["http://localhost:9999", "https://example.org", "null", "nonsense"]) {
    assert.equal(await status(app, { host, origin }), 403, origin);
  }
  const response = await app.request("/shutdown", {
    method: "POST",
    headers: { origin: "https://example.org" },
  });
  assert.equal(response.status, 403);
  assert.equal(typeof (await response.json()).error, "string");
});

Deno.test("guard: an application's origin is served if it is allowed", async () => {
  const origin = "app://obsidian.md";
  const app = await new TestApp({ settings: { corsOrigins: [origin] } }).ready();
  assert.equal(await status(app, { origin }), 200);
  assert.equal(await status(app, { origin: "app://other" }), 403);
});

Deno.test("guard: an allowed origin gets the headers its page needs, on errors too", async () => {
  const origin = "https://example.org";
  const app = new TestApp({ settings: { corsOrigins: [origin] } });
  assert.equal(await status(app, { origin: "https://example.com" }), 403);
  const body = JSON.stringify({});
  for (const path of ["/embeddings", "/nope"]) {
    const headers = { origin, "content-type": "application/json" };
    const response = await app.request(path, { method: "POST", headers, body });
    assert.ok(response.status >= 400);
    assert.equal(response.headers.get("access-control-allow-origin"), origin);
    assert.equal(response.headers.get("vary"), "origin");
    assert.match(response.headers.get("access-control-expose-headers") ?? "", /x-request-id/);
  }
});

Deno.test("guard: an allowed origin may only post content types for which its browser sends a preflight", async () => {
  const origin = "https://example.org";
  const app = new TestApp({ settings: { corsOrigins: ["*"] } });
  const post = (contentType?: string) =>
    app.request("/shutdown", {
      method: "POST",
      headers: { origin, ...(contentType !== undefined && { "content-type": contentType }) },
    });
  assert.equal((await post("text/plain")).status, 415);
  assert.equal((await post()).status, 415);
  assert.equal((await post("application/json")).status, 200);
});

Deno.test("guard: a browser's preflight is answered without a key", async () => {
  const app = new TestApp({
    settings: { corsOrigins: ["*"], apiKeys: [{ label: "test", key: "secret" }] },
  });
  const ask = (origin: string) =>
    app.request("/v1/chat/completions", {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type, x-stainless-os",
      },
    });
  const answer = await ask("https://example.org");
  assert.equal(answer.status, 204);
  assert.equal(answer.headers.get("access-control-allow-origin"), "https://example.org");
  assert.match(answer.headers.get("access-control-allow-methods") ?? "", /POST/);
  assert.equal(
    answer.headers.get("access-control-allow-headers"),
    "authorization, content-type, x-stainless-os",
  );
});

Deno.test("guard: with an API key, health answers without it, and other paths require it", async () => {
  const app = new TestApp({ settings: { apiKeys: [{ label: "test", key: "secret" }] } });
  assert.equal((await app.request("/health")).status, 503);
  assert.equal((await app.request("/v1/health")).status, 503);
  for (const path of ["/models", "/openapi.json", "/docs", "/info", "/metrics", "/nope"]) {
    assert.equal((await app.request(path)).status, 401, path);
  }
  const refused = await app.request("/models", { headers: { authorization: "Bearer wrong" } });
  assert.equal(refused.status, 401);
  assert.equal(refused.headers.get("www-authenticate"), "Bearer");
  assert.equal((await refused.json()).error.code, "invalid_api_key");
  assert.equal(await status(app, { authorization: "Bearer secret" }), 200);
  assert.equal(await status(app, { authorization: "bearer secret" }), 200);
  assert.equal(await status(app, { authorization: "secret" }), 401);
});

Deno.test("guard: without an API key, any authorization is accepted", async () => {
  assert.equal(await status(new TestApp(), { authorization: "Bearer anything" }), 200);
});

Deno.test("guard: any of several keys is accepted, as a bearer token or as x-api-key", async () => {
  const apiKeys = [{ label: "ann", key: "one" }, { label: "ben", key: "two" }];
  const app = new TestApp({ settings: { apiKeys } });
  assert.equal(await status(app, { authorization: "Bearer two" }), 200);
  assert.equal(await status(app, { "x-api-key": "one" }), 200);
  assert.equal(await status(app, { "x-api-key": "three" }), 401);
});

Deno.test("guard: the log names a caller by the label of the key, never by the key", async () => {
  const apiKeys = [{ label: "ann", key: "k-secret-1" }];
  const app = new TestApp({ settings: { apiKeys } });
  configureLog({ level: "info", format: "json" });
  using stderr = new CapturedStderr();
  await app.post("/v1/nope", {}, { headers: { authorization: "Bearer k-secret-1" } });
  await app.post("/v1/nope", {}, { headers: { authorization: "Bearer k-secret-2" } });
  await Promise.resolve();
  configureLog({ level: "error", format: "text" });
  assert.deepEqual(stderr.lines.map((line) => JSON.parse(line).key), ["ann", undefined]);
  assert.ok(!stderr.lines.join().includes("secret"));
});

Deno.test("callers without the key or from elsewhere learn nothing about this machine's files from a failed model", async () => {
  const folder = "/nowhere/secret-folder";
  const reason = async (settings: Partial<ServerSettings>, headers = {}, info = LOCAL_CALLER) => {
    const app = new TestApp({ folder, settings });
    app.session.start();
    await app.session.ready().catch(() => {});
    // With API keys, only health answers callers without one.
    const paths = settings.apiKeys && !("authorization" in headers)
      ? ["/health"]
      : ["/health", "/models", "/v1/models", "/info", "/chat/completions", "/embeddings"];
    const reasons = await Promise.all(paths.map(async (path) => {
      const method = /completions|embeddings/.test(path) ? "POST" : "GET";
      const response = await app.request(path, { headers, method }, info);
      assert.equal(response.status, 503);
      const { error } = await response.json();
      return error.message ?? error;
    }));
    await app.session.stop();
    assert.equal(new Set(reasons).size, 1, reasons.join("; "));
    return reasons[0] as string;
  };
  const apiKeys = [{ label: "ann", key: "one" }];
  assert.match(await reason({}), /secret-folder/);
  assert.match(await reason({ apiKeys }, { authorization: "Bearer one" }), /secret-folder/);
  for (
    const told of [
      await reason({ apiKeys }),
      await reason({}, { via: "1.1 proxy" }),
      await reason({ host: "0.0.0.0" }, {}, { ...LOCAL_CALLER, callerAddress: "10.0.0.9" }),
    ]
  ) {
    assert.doesNotMatch(told, /secret-folder/);
    assert.match(told, /could not be loaded/);
  }
});
