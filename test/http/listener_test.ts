import assert from "node:assert/strict";
import { connect as connectNode, Socket, type TcpNetConnectOpts } from "node:net";
import { fileURLToPath } from "node:url";
import { Listener } from "../../src/http/listener.ts";
import { startServer } from "../../src/http/server.ts";
import { type ConnectionFigures, limitConnections } from "../../src/http/connections.ts";
import { TestApp } from "../fixtures/server.ts";

const SERVER = fileURLToPath(new URL("../fixtures/small_server.ts", import.meta.url));

/** What waits for a client of ours for longer than it should is a failure, not a hang. */
const PATIENCE = { signal: AbortSignal.timeout(60_000) };

const NEVER = new Int32Array(new SharedArrayBuffer(4));

async function connect(port: number): Promise<Deno.TcpConn> {
  return await Deno.connect({ hostname: "127.0.0.1", port });
}

async function readAll(connection: Deno.TcpConn): Promise<string> {
  return await new Response(connection.readable).text();
}

Deno.test("a server that ran out of file descriptors serves again when there are some", {
  ignore: Deno.build.os === "windows",
}, async () => {
  // Without the cap on connections, so that they do run out.
  const child = new Deno.Command("sh", {
    args: ["-c", `ulimit -n 100; exec "$0" run -A --no-check "$1"`, Deno.execPath(), SERVER],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  try {
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const port = Number((await reader.read()).value);
    const connections: Deno.TcpConn[] = [];
    for (let n = 0; n < 150; n++) connections.push(await connect(port));
    await new Promise((resolve) => setTimeout(resolve, 500));
    for (const connection of connections) connection.close();
    let text = "";
    while (text === "") {
      PATIENCE.signal.throwIfAborted();
      const timeout = { signal: AbortSignal.timeout(1_000) };
      text = await fetch(`http://127.0.0.1:${port}/metrics`, timeout)
        .then((response) => response.text()).catch(() => "");
    }
    assert.match(text, /^hearth_listener_restarts_total [1-9]/m);
  } finally {
    child.kill("SIGKILL");
    await child.status;
  }
});

Deno.test("limitConnections() keeps connections, and those that wait, below what the process may open", () => {
  assert.deepEqual(limitConnections(4096, 256), { maxConnections: 128, backlog: 32 });
  assert.deepEqual(limitConnections(4096, 1024), { maxConnections: 800, backlog: 128 });
  assert.deepEqual(limitConnections(100, 1024), { maxConnections: 100, backlog: 128 });
  assert.deepEqual(limitConnections(4096, 64), { maxConnections: 32, backlog: 8 });
  assert.deepEqual(limitConnections(4096, 1_000_000), { maxConnections: 4096, backlog: 511 });
});

Deno.test("at most a setting's connections are open: the longest idle gives way, else the new one", async () => {
  const server = await startServer(new TestApp({ settings: { maxConnections: 2 } }).deps);
  const { port } = server.address;
  const first = await connect(port);
  const second = await connect(port);
  // Each is at the server before the next comes.
  for (const connection of [first, second]) {
    await connection.write(
      new TextEncoder().encode("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    );
    await connection.read(new Uint8Array(100));
  }
  const third = await connect(port);
  assert.match(await readAll(first), /"openapi"/, "it is closed after its answer");
  await third.write(new TextEncoder().encode("GET /health HTTP/1.1\r\nHost: localhost\r\n"));
  await third.write(new TextEncoder().encode("Connection: close\r\n\r\n"));
  assert.match(await readAll(third), /^HTTP\/1\.1 503 /);
  second.close();
  await server.stop();
});

Deno.test("a client that closes its sending half gets its answer", async () => {
  await using app = await new TestApp().ready();
  const server = await startServer(app.deps);
  const connection = await connect(server.address.port);
  const body = JSON.stringify({
    model: "hearth-demo-chat",
    messages: [{ role: "user", content: "What is the capital of France?" }],
    temperature: 0,
    max_tokens: 24,
  });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  await connection.write(new TextEncoder().encode(head + body));
  await connection.closeWrite();
  const text = await readAll(connection);
  assert.match(text, /HTTP\/1\.1 200 OK/);
  assert.match(text, /"finish_reason"/);
  await server.stop();
});

/** Figures that count the connections there ever were. */
class CountingFigures implements ConnectionFigures {
  refused = 0;
  restarts = 0;
  total = 0;
  #open = 0;

  get open(): number {
    return this.#open;
  }

  set open(count: number) {
    this.total += Number(count > this.#open);
    this.#open = count;
  }
}

Deno.test("Listener leaves a port alone that connections reach, however often it looks", async () => {
  for (const host of ["127.0.0.1", "0.0.0.0"]) {
    const figures = new CountingFigures();
    const listener = new Listener({
      host,
      port: 0,
      maxConnections: 10,
      figures,
      handler: () => {},
      probeEveryMs: 1,
    });
    await listener.open();
    while (figures.total < 20) await new Promise((resolve) => setTimeout(resolve, 5));
    const closed = listener.close();
    listener.closeAllConnections();
    await closed;
    assert.equal(figures.restarts, 0, host);
  }
});

Deno.test("Listener listens again once its calls fail, and the connections that there are live on", async () => {
  const figures = new CountingFigures();
  let numCalls = 0;
  const listener = new Listener({
    host: "127.0.0.1",
    port: 0,
    maxConnections: 10,
    figures,
    handler: (_, response) => response.end("here"),
    probeEveryMs: 20,
    // To where nobody listens, for as long as the port is not listened on anew.
    call: ((options: TcpNetConnectOpts) => {
      numCalls++;
      return connectNode(figures.restarts > 0 ? options : { ...options, port: 1 });
    }) as typeof connectNode,
  });
  await listener.open();
  const { port } = listener.address;
  const kept = await connect(port);
  const ask = async () => {
    await kept.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    const bytes = new Uint8Array(1000);
    return new TextDecoder().decode(bytes.subarray(0, await kept.read(bytes) ?? 0));
  };
  assert.match(await ask(), /here/);
  while (figures.restarts === 0) {
    PATIENCE.signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(numCalls >= 4, `${numCalls} calls`);
  assert.match(await ask(), /here/);
  assert.equal(await (await fetch(`http://127.0.0.1:${port}/`)).text(), "here");
  kept.close();
  const closed = listener.close();
  listener.closeAllConnections();
  await closed;
  assert.equal(figures.restarts, 1);
});

Deno.test("Listener does not judge calls by a thread that was busy", async () => {
  const figures = new CountingFigures();
  let numCalls = 0;
  const listener = new Listener({
    host: "127.0.0.1",
    port: 0,
    maxConnections: 10,
    figures,
    handler: () => {},
    probeEveryMs: 1,
    // They arrive nowhere, and nobody looks before it is too late.
    call: (() => {
      numCalls++;
      const socket = new Socket();
      if (numCalls <= 5) setTimeout(() => Atomics.wait(NEVER, 0, 0, 2_500));
      return socket;
    }) as typeof connectNode,
  });
  await listener.open();
  while (numCalls <= 5) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(figures.restarts, 0);
  await listener.close();
});
