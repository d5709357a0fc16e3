import assert from "node:assert/strict";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";
import { startServer } from "../../src/server/http/server.ts";
import {
  chatBody,
  ENDLESS,
  LOCAL_CALLER,
  TestApp,
  TestServer,
} from "../fixtures/servers/server.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";

const CHAT = "/v1/chat/completions";

function post(server: TestServer, body: unknown): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetch(`${server.base}${CHAT}`, { method: "POST", headers, body: JSON.stringify(body) });
}

Deno.test("RunningServer.stop() lets a short request finish, and accepts no new one", async () => {
  const server = await TestServer.start();
  const answer = post(server, chatBody());
  while (server.app.session.numInFlight === 0) await new Promise((resolve) => setTimeout(resolve));
  const stopped = server[Symbol.asyncDispose]();
  assert.equal((await answer).status, 200);
  assert.equal((await (await answer).json()).choices[0].finish_reason, "length");
  await stopped;
  await assert.rejects(fetch(`${server.base}/health`));
});

Deno.test("RunningServer.stop() accepts no new connection while it waits for running requests", async () => {
  const server = await TestServer.start();
  const { hostname, port } = new URL(server.base);
  const response = await post(server, chatBody({ stream: true, ...ENDLESS }));
  const stopped = server[Symbol.asyncDispose]();
  await assert.rejects(Deno.connect({ hostname, port: Number(port) }));
  await response.text();
  await stopped;
});

Deno.test("RunningServer.stop() ends a stream that outlasts the grace period, with an error", async () => {
  const { spawnWorker, workers } = fragileSpawner();
  const server = await TestServer.start({ spawnWorker });
  workers[0]!.postMessage({ type: "slow-steps", ms: 20 });
  const response = await post(server, chatBody({ stream: true, ...ENDLESS }));
  const [text] = await Promise.all([response.text(), server[Symbol.asyncDispose]()]);
  const last = JSON.parse(text.trimEnd().split("\n\n").at(-1)!.slice("data: ".length));
  assert.equal(last.error.code, "shutting_down");
  assert.equal(last.error.message, "shutting down");
});

Deno.test("health says that the server is shutting down", async () => {
  const app = new TestApp();
  app.session.drain();
  const response = await app.request("/health");
  assert.equal(response.status, 503);
  assert.deepEqual(await response.json(), { status: "unhealthy", error: "shutting down" });
});

Deno.test("POST /shutdown answers first, and then begins the shutdown, which is announced", async () => {
  const begun = Promise.withResolvers<void>();
  const app = new TestApp({ requestShutdown: begun.resolve });
  const server = startServer(app.deps);
  using stderr = new CapturedStderr();
  const url = `http://127.0.0.1:${server.address.port}/shutdown`;
  const response = await fetch(url, { method: "POST" });
  assert.equal(response.status, 200);
  assert.equal(typeof (await response.json()).message, "string");
  await begun.promise;
  assert.deepEqual(stderr.lines, ["[SHUTDOWN] Shutdown requested (remote_allowed: false)"]);
  await server.stop();
});

Deno.test("POST /shutdown begins nothing before its answer has been sent", async () => {
  const sent = Promise.withResolvers<void>();
  let shutdowns = 0;
  const app = new TestApp({ requestShutdown: () => shutdowns++ });
  const exchange = { ...LOCAL_CALLER, completed: sent.promise };
  assert.equal((await app.request("/shutdown", { method: "POST" }, exchange)).status, 200);
  assert.equal(shutdowns, 0);
  sent.resolve();
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(shutdowns, 1);
});

Deno.test("POST /shutdown is accepted from elsewhere only if that is allowed", async () => {
  const caller = { ...LOCAL_CALLER, callerAddress: "10.0.0.9" };
  let shutdowns = 0;
  const requestShutdown = () => shutdowns++;
  const post = (app: TestApp) => app.request("/v1/shutdown", { method: "POST" }, caller);
  assert.equal((await post(new TestApp({ requestShutdown }))).status, 403);
  const passedOn = { method: "POST", headers: { "x-forwarded-for": "127.0.0.1" } };
  const proxied = await new TestApp({ requestShutdown }).request("/shutdown", passedOn);
  assert.equal(proxied.status, 403);
  assert.equal(typeof (await proxied.json()).error, "string");
  const settings = { allowRemoteShutdown: true };
  assert.equal((await post(new TestApp({ requestShutdown, settings }))).status, 200);
  await Promise.resolve();
  assert.equal(shutdowns, 1);
});

Deno.test("startServer() fails if the port is taken", async () => {
  const server = startServer(new TestApp().deps);
  const { port } = server.address;
  assert.throws(
    () => startServer(new TestApp({ settings: { port } }).deps),
    Deno.errors.AddrInUse,
  );
  await server.stop();
});
