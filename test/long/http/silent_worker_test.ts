/** A worker that stops answering is replaced like a lost one. */
import assert from "node:assert/strict";
import { fragileSpawner } from "../../fixtures/threads/fragile.ts";
import { chatBody, TestServer } from "../../fixtures/servers/server.ts";

const CHAT = "/v1/chat/completions";

for (const fault of ["hang-on=request", "hang-on=metrics"]) {
  Deno.test(`a worker that hangs (${fault}): requests end, health says 503, another takes over`, async () => {
    const { spawnWorker, workers } = fragileSpawner(fault);
    await using server = await TestServer.start({ spawnWorker, workerTimeoutSeconds: 3 });
    const { app, base } = server;
    assert.equal((await fetch(`${base}/health`)).status, 200);
    // This makes the worker hang; /metrics answers without it.
    if (fault === "hang-on=metrics") await app.request("/metrics");

    const stream = app.post(CHAT, chatBody({ stream: true })).then((answer) => answer.text());
    const whole = await app.post(CHAT, chatBody());
    const health = await fetch(`${base}/health`);
    assert.equal(whole.status, 503);
    assert.ok(whole.headers.has("retry-after"));
    assert.equal((await whole.json()).error.code, "model_not_loaded");
    assert.match(await stream, /"model_not_loaded"/);
    assert.equal(health.status, 503);
    assert.match((await health.json()).error, /did not answer \(--worker-timeout 3\)/);

    await app.session.ready();
    assert.equal((await app.post(CHAT, chatBody())).status, 200);
    assert.equal((await fetch(`${base}/health`)).status, 200);
    assert.equal(workers.length, 2);
    assert.equal(await server.figure("hearth_worker_hangs_total"), 1);
    assert.equal(await server.figure("hearth_worker_losses_total"), 1);
    assert.equal(await server.figure("hearth_worker_silent_seconds"), 0);
  });
}
