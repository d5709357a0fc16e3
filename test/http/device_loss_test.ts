import assert from "node:assert/strict";
import { fragileSpawner } from "../fixtures/fragile.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import { chatBody, ENDLESS, TestServer } from "../fixtures/server.ts";

const CHAT = "/v1/chat/completions";

gpuTest(
  "a lost device: running requests end in an error, the worker is replaced, the next request succeeds",
  async () => {
    const { spawnWorker, workers } = fragileSpawner();
    await using server = await TestServer.start({ device: "webgpu", spawnWorker });
    const { app, base } = server;
    const expected = (await (await app.post(CHAT, chatBody())).json()).choices;

    const stream = await app.post(CHAT, chatBody({ stream: true, ...ENDLESS }));
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    await reader.read();
    const whole = app.post(CHAT, chatBody(ENDLESS));
    workers[0]!.postMessage({ type: "destroy-device" });

    let last = "";
    for (let read = await reader.read(); !read.done; read = await reader.read()) last = read.value;
    assert.equal(JSON.parse(last.slice("data: ".length)).error.code, "model_not_loaded");
    const health = await fetch(`${base}/health`);
    assert.equal(health.status, 503);
    assert.match((await health.json()).error, /lost/);
    const answer = await whole;
    assert.equal(answer.status, 503);
    assert.ok(answer.headers.has("retry-after"));
    assert.equal((await answer.json()).error.code, "model_not_loaded");

    await app.session.ready();
    assert.equal((await fetch(`${base}/health`)).status, 200);
    assert.deepEqual((await (await app.post(CHAT, chatBody())).json()).choices, expected);
    assert.equal(workers.length, 2);
    assert.equal(await server.figure("hearth_worker_losses_total"), 1);
    await server.untilIdle();
  },
);
