import assert from "node:assert/strict";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { freePort, HAS_NGINX, Nginx } from "../../fixtures/servers/nginx.ts";
import { getBytes, LiveClient, readSamples } from "../../fixtures/servers/live_client.ts";
import { chatBody, ENDLESS } from "../../fixtures/servers/server.ts";
import { CLIP, CLIP_TEXT, readRecording } from "../../fixtures/servers/speech_server.ts";

/** Skipped if nginx is not installed; `.ci/run` installs it. */
const ignore = !HAS_NGINX;

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function replica(port: number, flags: readonly string[] = []): HearthProcess {
  return new HearthProcess([
    ...["-p", String(port), "--device", "cpu", "--log-level", "error", "--drain-seconds", "10"],
    ...flags,
  ]);
}

interface ReplicaPair extends AsyncDisposable {
  readonly ports: readonly number[];
  readonly first: HearthProcess;
  readonly nginx: Nginx;
}

/** Two ready replicas with nginx in front of them. */
async function startPair(flags?: readonly string[]): Promise<ReplicaPair> {
  await using started = new AsyncDisposableStack();
  const ports = [freePort(), freePort()];
  const replicas = ports.map((port) => started.use(replica(port, flags)));
  await Promise.all(replicas.map((each) => each.ready()));
  const nginx = started.use(await Nginx.start(ports));
  const owned = started.move();
  return {
    ports,
    first: replicas[0]!,
    nginx,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function ask(url: string, extra: Record<string, unknown> = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(chatBody({ max_tokens: 2, ...extra })),
  });
}

async function numInFlight(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(/^hearth_requests_in_flight (\d+)/m.exec(text)![1]);
}

/** Number of requests that a replica has answered, by status. */
async function answered(port: number): Promise<Map<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const lines = text.matchAll(
    /hearth_http_requests_total\{route="\/chat\/completions",.*status="(\d+)"\} (\d+)/g,
  );
  return new Map([...lines].map(([, status, count]) => [status!, Number(count)]));
}

Deno.test(
  "nginx: a replica without a model gets no requests, and local-only endpoints are closed",
  { ignore },
  async () => {
    const ports = [freePort(), freePort()];
    await using good = replica(ports[0]!);
    const unreadable = Deno.makeTempDirSync();
    Deno.writeTextFileSync(`${unreadable}/config.json`, "{");
    await using bad = replica(ports[1]!, ["-m", unreadable]);
    await Promise.all([good.ready(), bad.url()]);
    await using nginx = await Nginx.start(ports);
    for (let n = 0; n < 20; n++) {
      const response = await ask(nginx.url, { prompt_cache_key: `conversation ${n}` });
      assert.equal(response.status, 200, await response.text());
    }
    assert.equal((await answered(ports[0]!)).get("200"), 20);
    assert.equal((await answered(ports[1]!)).get("200"), undefined);
    for (
      const path of [
        ...["/metrics", "/v1/metrics", "/metrics/", "//metrics", "/v1//metrics", "/%6detrics"],
        ...["/METRICS", "/x/../metrics", "/./metrics", "/metrics?x=1"],
        ...["/shutdown", "/v1/shutdown", "//v1/shutdown", "/shut%64own", "/shutdown/"],
      ]
    ) {
      const method = path.includes("etrics") || path.includes("ETRICS") ? "GET" : "POST";
      // Sent unchanged: fetch would normalize the path.
      const { hostname, port } = new URL(nginx.url);
      using connection = await Deno.connect({ hostname, port: Number(port) });
      const head =
        `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;
      await connection.write(new TextEncoder().encode(head));
      const text = await new Response(connection.readable).text();
      assert.match(text, /^HTTP\/1\.1 403 .*/, path);
      assert.doesNotMatch(text, /hearth_/);
    }
    // nginx adds the client's address: no request through it is local.
    const file = [{ type: "image_url", image_url: { url: "file:///etc/hostname" } }];
    const refused = await ask(nginx.url, { messages: [{ role: "user", content: file }] });
    assert.equal(refused.status, 400);
    await refused.body?.cancel();
  },
);

Deno.test("nginx: a killed replica ends only its own streams", { ignore }, async () => {
  await using pair = await startPair();
  const { ports, first, nginx } = pair;
  const streams = await Promise.all(
    Array.from({ length: 16 }, (_, n) => {
      const prompt_cache_key = `conversation ${n}`;
      return ask(nginx.url, { ...ENDLESS, max_tokens: 300, stream: true, prompt_cache_key });
    }),
  );
  const [numFirst, numSecond] = await Promise.all(ports.map(numInFlight));
  assert.ok(numFirst! > 0 && numSecond! > 0, "both replicas have streams");
  const readers = streams.map((response) => response.body!.getReader());
  await Promise.all(readers.map((reader) => reader.read()));
  first.kill("SIGKILL");
  const ends = await Promise.all(readers.map(async (reader) => {
    let text = "";
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        text += new TextDecoder().decode(read.value);
      }
    } catch {
      return "broken";
    }
    return text.endsWith("data: [DONE]\n\n") ? "whole" : "broken";
  }));
  assert.deepEqual(Object.groupBy(ends, (end) => end).broken?.length, numFirst);
  assert.deepEqual(Object.groupBy(ends, (end) => end).whole?.length, numSecond);
  for (let n = 0; n < 10; n++) {
    const response = await ask(nginx.url, { prompt_cache_key: `another ${n}` });
    assert.equal(response.status, 200, await response.text());
  }
});

Deno.test("nginx: a rolling restart under load loses no request", { ignore }, async () => {
  const ports = [freePort(), freePort()];
  let replicas = ports.map((port) => replica(port));
  await Promise.all(replicas.map((each) => each.ready()));
  await using nginx = await Nginx.start(ports);
  const ends: string[] = [];
  let isOver = false;
  let numAsked = 0;
  const client = async () => {
    while (!isOver) {
      const response = await ask(nginx.url, { prompt_cache_key: `conversation ${numAsked++}` });
      const text = await response.text();
      ends.push(
        response.status === 200 && text.includes("finish_reason")
          ? "200"
          : `${response.status} ${text}`,
      );
    }
  };
  const clients = Promise.all([client(), client(), client()]);
  for (const [index, port] of ports.entries()) {
    await pause(300);
    replicas[index]!.kill("SIGTERM");
    assert.equal((await replicas[index]!.ending).code, 0);
    const next = replica(port);
    replicas = replicas.with(index, next);
    await next.ready();
    await pause(300);
  }
  isOver = true;
  await clients;
  for (const each of replicas) await each[Symbol.asyncDispose]();
  assert.deepEqual([...new Set(ends)], ["200"]);
  assert.ok(ends.length > 20);
});

Deno.test("nginx: only full replicas answer that they are full", { ignore }, async () => {
  await using pair = await startPair(["--max-queue", "0"]);
  const { nginx } = pair;
  const statuses = await Promise.all(
    Array.from({ length: 150 }, async (_, n) => {
      const response = await ask(nginx.url, {
        ...ENDLESS,
        max_tokens: 50,
        prompt_cache_key: `${n}`,
      });
      await response.body?.cancel();
      return response.status;
    }),
  );
  assert.deepEqual([...new Set(statuses)].sort(), [200, 429]);
  const response = await ask(nginx.url);
  assert.equal(response.status, 200, await response.text());
});

/** Sends a request. @returns the index of the replica that answered it. */
async function answeredBy(
  ports: readonly number[],
  send: () => Promise<Response>,
): Promise<number> {
  const count = async (port: number) => (await answered(port)).get("200") ?? 0;
  const before = await Promise.all(ports.map(count));
  const response = await send();
  assert.equal(response.status, 200, await response.text());
  const after = await Promise.all(ports.map(count));
  return after.findIndex((each, index) => each > before[index]!);
}

Deno.test(
  "nginx: a conversation stays with a replica, by its key or by its beginning",
  { ignore },
  async () => {
    await using pair = await startPair();
    const { ports, nginx } = pair;
    const system = { role: "system", content: 'You answer {"briefly"}.' };
    const used = { key: new Set<number>(), beginning: new Set<number>() };
    for (let n = 0; n < 16; n++) {
      const conversation = [system, { role: "user", content: `Question ${n}?` }];
      const later = [
        ...conversation,
        { role: "assistant", content: "Yes." },
        { role: "user", content: "Why?" },
      ];
      const send = (extra: Record<string, unknown>) =>
        answeredBy(ports, () => ask(nginx.url, extra));
      const replicaOfIt = await send({ messages: conversation });
      used.beginning.add(replicaOfIt);
      assert.equal(await send({ messages: later }), replicaOfIt);
      const prompt_cache_key = `key ${n}`;
      const replicaOfKey = await send({ messages: conversation, prompt_cache_key });
      used.key.add(replicaOfKey);
      assert.equal(await send({ messages: [later[3]], prompt_cache_key }), replicaOfKey);
    }
    assert.deepEqual(
      [used.key.size, used.beginning.size],
      [2, 2],
      "both replicas have some of the conversations",
    );
  },
);

Deno.test("nginx: no body makes the search for its conversation slow", { ignore }, async () => {
  await using pair = await startPair();
  const { nginx } = pair;
  for (
    const piece of ['"input":[', '"messages":[', '"role"', '"messages":["role":', '"input":"']
  ) {
    const response = await fetch(`${nginx.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: piece.repeat(1_000_000 / piece.length),
      signal: AbortSignal.timeout(20_000),
    });
    assert.equal(response.status, 400, await response.text());
  }
});

Deno.test({
  name: "nginx: live speech passes through it, and is closed properly when its replica stops",
  ignore,
  fn: async () => {
    const port = freePort();
    await using only = replica(port, ["-m", "hearth-demo-asr"]);
    await only.ready();
    await using nginx = await Nginx.start([port, port]);
    const { samples } = await readSamples(await readRecording(CLIP.file));
    const client = await LiveClient.open(nginx.url);
    client.append(getBytes(samples));
    client.append(new Uint8Array(48_000));
    const completed = "conversation.item.input_audio_transcription.completed";
    assert.equal((await client.until(completed))["transcript"], CLIP_TEXT);
    // A request without an upgrade gets an explanation.
    const plain = await fetch(`${nginx.url}/v1/realtime`);
    assert.equal(plain.status, 426);
    await plain.body!.cancel();
    only.kill("SIGTERM");
    assert.equal((await client.closed).code, 1001);
  },
});
