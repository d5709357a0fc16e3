import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { startServer } from "../../src/server/http/server.ts";
import { yieldToEvents } from "../../src/base/timing.ts";
import { limitConnections } from "../../src/server/http/connection/connections.ts";
import { TestListener } from "../fixtures/servers/listener.ts";
import { OpenTimers } from "../fixtures/servers/open_timers.ts";
import { chatBody, ENDLESS, TestApp } from "../fixtures/servers/server.ts";

const SERVER = fileURLToPath(new URL("../fixtures/servers/small_server.ts", import.meta.url));

const encoder = new TextEncoder();

async function connect(port: number): Promise<Deno.TcpConn> {
  return await Deno.connect({ hostname: "127.0.0.1", port });
}

async function readAll(connection: Deno.TcpConn): Promise<string> {
  return await new Response(connection.readable).text();
}

/** A server in its own process that may open few files. */
class SmallServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly port: number;

  private constructor(child: Deno.ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  /** Starts the server with `numHeld` descriptors in use for something else. */
  static async start(limits: { maxFiles: number; numHeld: number }): Promise<SmallServer> {
    const { maxFiles, numHeld } = limits;
    const script = `ulimit -n ${maxFiles}; exec "$0" run -A --no-check "$1" ${numHeld}`;
    const child = new Deno.Command("sh", {
      args: ["-c", script, Deno.execPath(), SERVER],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    return new SmallServer(child, Number((await reader.read()).value));
  }

  numDescriptors(): number {
    return [...Deno.readDirSync(`/proc/${this.#child.pid}/fd`)].length;
  }

  /** Reads the server's metrics over a new connection. */
  async metrics(): Promise<string> {
    using connection = await connect(this.port);
    await connection.write(encoder.encode(
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ));
    return await readAll(connection);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }
}

Deno.test("a server that ran out of file descriptors continues when some are free", {
  ignore: Deno.build.os === "windows",
}, async () => {
  await using server = await SmallServer.start({ maxFiles: 128, numHeld: 60 });
  const connections: Deno.TcpConn[] = [];
  for (let n = 0; n < 150; n++) connections.push(await connect(server.port));
  // This connection is among those that are accepted when descriptors are free again.
  const metrics = server.metrics();
  if (Deno.build.os === "linux") {
    // Waits until the descriptors are used up. One may be free: the listener opens and closes one of its own.
    while (server.numDescriptors() < 127) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
  for (const connection of connections) connection.close();
  assert.match(await metrics, /^hearth_accept_failures_total [1-9]/m);
});

Deno.test(
  "a server with fewer descriptors than open connections never runs out of them, and answers new connections",
  {
    ignore: Deno.build.os !== "linux",
  },
  async () => {
    await using server = await SmallServer.start({ maxFiles: 256, numHeld: 0 });
    for (let round = 0; round < 3; round++) {
      const connections = await Promise.all(
        Array.from({ length: 300 }, () => connect(server.port)),
      );
      for (let n = 0; n < 10; n++) {
        assert.match(await server.metrics(), /^hearth_accept_failures_total 0$/m);
        assert.ok(server.numDescriptors() < 230, `${server.numDescriptors()} descriptors`);
      }
      for (const connection of connections) connection.close();
    }
    assert.match(await server.metrics(), /^hearth_connections_refused_total [1-9]/m);
  },
);

Deno.test("limitConnections() keeps connections below the number of files that the process may open", () => {
  assert.equal(limitConnections(4096, 256), 160);
  assert.equal(limitConnections(4096, 1024), 928);
  assert.equal(limitConnections(100, 1024), 100);
  assert.equal(limitConnections(4096, 64), 32);
  assert.equal(limitConnections(4096, 1_000_000), 4096);
});

Deno.test("at the limit of connections, a new connection closes the one that has been idle longest", async () => {
  const server = startServer(new TestApp({ settings: { maxConnections: 2 } }).deps);
  const { port } = server.address;
  const first = await connect(port);
  const second = await connect(port);
  // The first connection is answered first, so it has been idle longest.
  for (const connection of [first, second]) {
    await connection.write(
      encoder.encode("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    );
    await connection.read(new Uint8Array(100));
  }
  const third = await connect(port);
  assert.match(
    await readAll(first),
    /"openapi"/,
    "the first connection is closed after its answer",
  );
  await third.write(encoder.encode("GET /health HTTP/1.1\r\nHost: localhost\r\n"));
  await third.write(encoder.encode("Connection: close\r\n\r\n"));
  assert.match(await readAll(third), /^HTTP\/1\.1 503 /);
  second.close();
  await server.stop();
});

Deno.test("a client that closes its sending half gets its answer", async () => {
  await using app = await new TestApp().ready();
  const server = startServer(app.deps);
  const connection = await connect(server.address.port);
  const body = JSON.stringify({
    model: "hearth-demo-chat",
    messages: [{ role: "user", content: "What is the capital of France?" }],
    temperature: 0,
    max_tokens: 24,
  });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  await connection.write(encoder.encode(head + body));
  await connection.closeWrite();
  const text = await readAll(connection);
  assert.match(text, /HTTP\/1\.1 200 OK/);
  assert.match(text, /"finish_reason"/);
  await server.stop();
});

Deno.test("an HTTP/1.0 client that closes its sending half gets a short answer, and is disconnected during a long one", async () => {
  await using app = await new TestApp().ready();
  const server = startServer(app.deps);
  const ask = async (size: { readonly max_tokens: number; readonly n?: number }) => {
    const connection = await connect(server.address.port);
    const body = JSON.stringify(chatBody({ ...ENDLESS, ...size }));
    const head = `POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    await connection.write(encoder.encode(head + body));
    await connection.closeWrite();
    return await readAll(connection);
  };
  // On a busy machine, even one token may take longer than the second that such a client gets.
  let short = "";
  for (let attempt = 0; attempt < 20 && short === ""; attempt++) {
    short = await ask({ max_tokens: 1 });
  }
  assert.match(short, /^HTTP\/1\.1 200 OK.*"finish_reason"/s);
  // Only a short answer is written within a second.
  assert.equal(await ask({ max_tokens: 2000, n: 16 }), "");
  await server.stop();
});

Deno.test("a client that closes its sending half within its body is disconnected", async () => {
  await using app = await new TestApp().ready();
  const server = startServer(app.deps);
  const connection = await connect(server.address.port);
  await connection.write(encoder.encode(
    "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" +
      'Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"model":',
  ));
  await connection.closeWrite();
  assert.equal(
    await readAll(connection),
    "",
    "nothing is sent to probe whether the client is still there",
  );
  await server.stop();
});

/** Listens with `handler` until `use` has ended. */
async function withListener(
  handler: RequestListener,
  use: (connection: Deno.TcpConn) => Promise<void>,
): Promise<void> {
  const listener = new TestListener(handler);
  using connection = await connect(listener.port);
  await use(connection);
  await listener[Symbol.asyncDispose]();
  assert.equal(listener.figures.open, 0);
}

Deno.test("Listener sends the answers to requests that were sent together in the order of the requests", async () => {
  const paths: string[] = [];
  const handler: RequestListener = ({ url }, response) => {
    paths.push(url!);
    setTimeout(() => response.end(`of ${url}\n`), 10 - 2 * paths.length);
  };
  await withListener(handler, async (connection) => {
    const head = (path: string, extra = "") => `GET ${path} HTTP/1.1\r\nHost: a\r\n${extra}\r\n`;
    await connection.write(
      encoder.encode(head("/1") + head("/2") + head("/3", "Connection: close\r\n")),
    );
    const bodies = [...(await readAll(connection)).matchAll(/of \/(\d)/g)].map(([, n]) => n);
    assert.deepEqual(bodies, ["1", "2", "3"]);
  });
});

Deno.test("Listener answers all requests of a client that sends them together and then closes its sending half", async () => {
  const handler: RequestListener = ({ url }, response) => {
    setTimeout(() => response.end(`of ${url}\n`), 20);
  };
  await withListener(handler, async (connection) => {
    const heads = ["/1", "/2", "/3"].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await connection.write(encoder.encode(heads.join("")));
    await connection.closeWrite();
    const answers = [...(await readAll(connection)).matchAll(/of \/(\d)/g)].map(([, n]) => n);
    assert.deepEqual(answers, ["1", "2", "3"]);
  });
});

Deno.test("Listener adds no interim response to an answer that has begun for a half-closed client", async () => {
  const begun = Promise.withResolvers<void>();
  const handler: RequestListener = (_, response) => {
    response.write("begun, ");
    begun.resolve();
    setTimeout(() => response.end("complete"), 300);
  };
  await withListener(handler, async (connection) => {
    await connection.write(
      encoder.encode("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    );
    const received = readAll(connection);
    await begun.promise;
    await connection.closeWrite();
    assert.match(await received, /^HTTP\/1\.1 200 (?!.*HTTP\/1\.1).*begun, .*complete/s);
  });
});

Deno.test("Listener reads no more requests from a client while many are unanswered", async () => {
  const responses: ServerResponse[] = [];
  let numAnswered = 0;
  const handler: RequestListener = (_, response) => void responses.push(response);
  await withListener(handler, async (connection) => {
    const numRequests = 2_000;
    const head = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    await connection.write(encoder.encode(head.repeat(numRequests)));
    const received = connection.readable.pipeTo(new WritableStream());
    let most = 0;
    while (numAnswered < numRequests) {
      const open = responses.splice(0);
      most = Math.max(most, open.length);
      for (const response of open) response.end();
      numAnswered += open.length;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    // As many requests as 1 KiB holds, and 20 more.
    assert.ok(most <= 1024 / head.length + 20, `${most} requests at once`);
    void received.catch(() => {});
  });
});

Deno.test("Listener that closes answers a request that arrived before the previous answer ended", async () => {
  const isAnswered = Promise.withResolvers<void>();
  const handler: RequestListener = ({ url }, response) => {
    if (url === "/1") return void response.end("of /1", () => isAnswered.resolve());
    setTimeout(() => response.end("of /2"), 200);
  };
  await using listener = new TestListener(handler);
  using connection = await connect(listener.port);
  await connection.write(
    encoder.encode(["/1", "/2"].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join("")),
  );
  const received = readAll(connection);
  await isAnswered.promise;
  // Lets the end of the first answer be processed.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const closed = listener.close();
  assert.match(await received, /of \/1.*of \/2/s);
  await closed;
});

Deno.test("Listener.close() closes the port and idle connections, and waits for the others until they are closed", async () => {
  const isBusy = Promise.withResolvers<void>();
  await using listener = new TestListener(({ url }, response) => {
    if (url === "/idle") response.end("here");
    else isBusy.resolve();
  });
  const ask = async (path: string) => {
    const connection = await connect(listener.port);
    await connection.write(encoder.encode(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`));
    return connection;
  };
  using idle = await ask("/idle");
  using busy = await ask("/busy");
  await isBusy.promise;
  const bytes = new Uint8Array(1_000);
  const count = await idle.read(bytes);
  assert.match(new TextDecoder().decode(bytes.subarray(0, count!)), /here$/);
  let isClosed = false;
  const closed = listener.close().then(() => isClosed = true);
  assert.equal(await readAll(idle), "");
  await assert.rejects(connect(listener.port), Deno.errors.ConnectionRefused);
  assert.ok(!isClosed);
  const received = readAll(busy);
  await listener[Symbol.asyncDispose]();
  assert.equal(await received, "");
  await closed;
});

Deno.test("Listener leaves no timer after its connections have closed, one of them half-closed before its answer", async () => {
  const folder = "/src/server/http/connection";
  using ofSockets = new OpenTimers(`${folder}/tcp_socket.ts`);
  using ofListener = new OpenTimers(`${folder}/listener.ts`);
  const isAsked = Promise.withResolvers<ServerResponse>();
  const listener = new TestListener(({ url }, response) => {
    if (url === "/held") isAsked.resolve(response);
    else response.end("here");
  });
  assert.equal(await (await fetch(listener.base)).text(), "here");
  const held = await connect(listener.port);
  await held.write(encoder.encode("GET /held HTTP/1.1\r\nHost: a\r\n\r\n"));
  const response = await isAsked.promise;
  await held.closeWrite();
  await new Promise((resolve) => response.req.socket.once("end", resolve));
  response.end("held");
  assert.match(await readAll(held), /held$/);
  await listener[Symbol.asyncDispose]();
  assert.deepEqual([ofSockets.count, ofListener.count], [0, 0]);
});

Deno.test("Listener receives a body no faster than it is read, and sends no faster than the client reads", async () => {
  const NUM_BYTES = 64 * 2 ** 20;
  let numTaken = 0;
  let isDrained = true;
  let incoming: IncomingMessage | undefined;
  const handler: RequestListener = (request, response) => {
    incoming = request;
    request.on("end", () => {
      isDrained = response.write(new Uint8Array(NUM_BYTES));
      response.end();
    });
  };
  await withListener(handler, async (connection) => {
    await connection.write(encoder.encode(
      `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${NUM_BYTES}\r\n\r\n`,
    ));
    let numSent = 0;
    const sent = (async () => {
      const piece = new Uint8Array(2 ** 20);
      while (numSent < NUM_BYTES) {
        numSent += await connection.write(piece.subarray(0, NUM_BYTES - numSent));
      }
    })();
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.ok(numSent < NUM_BYTES / 2, `${numSent} bytes were taken of a body that nobody reads`);
    incoming!.on("data", ({ length }: Uint8Array) => numTaken += length);
    await sent;
    let numReceived = 0;
    for await (const { length } of connection.readable) numReceived += length;
    assert.equal(numTaken, NUM_BYTES);
    assert.ok(numReceived > NUM_BYTES);
    assert.equal(isDrained, false);
  });
});

Deno.test("Listener reads at most two chunks of 64 KiB of all bodies in each iteration of the event loop", async () => {
  const numClients = 12;
  const numBytes = 256 * 1024;
  const sent = Promise.withResolvers<void>();
  let inTurn = 0;
  let most = 0;
  let numRead = 0;
  await using server = new TestListener(async (incoming, outgoing) => {
    await sent.promise;
    incoming.on("data", ({ length }: Uint8Array) => {
      numRead += length;
      most = Math.max(most, inTurn += length);
    });
    incoming.once("end", () => outgoing.end("read"));
  });
  const connections = await Promise.all(
    Array.from({ length: numClients }, () => connect(server.port)),
  );
  // The bodies wait in the system's buffers.
  for (const connection of connections) {
    await connection.write(
      encoder.encode(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${numBytes}\r\n\r\n`),
    );
    await connection.write(new Uint8Array(numBytes));
  }
  sent.resolve();
  while (numRead < numClients * numBytes) {
    await yieldToEvents();
    inTurn = 0;
  }
  for (const connection of connections) connection.close();
  assert.ok(most <= 2 * 64 * 1024, `${most} bytes in one iteration`);
});

Deno.test("Listener disconnects a client that reads nothing of its answer, but not a slow one", async () => {
  const NUM_BYTES = 64 * 2 ** 20;
  let isClosed = false;
  const handler: RequestListener = (_, response) => {
    response.once("close", () => isClosed = true);
    response.end(new Uint8Array(NUM_BYTES));
  };
  await using listener = new TestListener(handler, { sendMs: 2_000 });
  using slow = await connect(listener.port);
  await slow.write(encoder.encode("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  let numReceived = 0;
  const piece = new Uint8Array(2 ** 20);
  for (let count: number | null = 1; count !== null; count = await slow.read(piece)) {
    numReceived += count;
    if (numReceived < NUM_BYTES / 4) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.ok(numReceived > NUM_BYTES);
  isClosed = false;
  using stalled = await connect(listener.port);
  await stalled.write(encoder.encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  while (!isClosed) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(listener.figures.open, 0);
});

Deno.test("Listener tells the handler that its client has disconnected", async () => {
  const begun = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  const handler: RequestListener = (_, response) => {
    response.once("close", gone.resolve);
    begun.resolve();
  };
  await withListener(handler, async (connection) => {
    await connection.write(encoder.encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    await begun.promise;
    connection.close();
    await gone.promise;
  });
});

Deno.test("Listener tells the handlers of all pipelined requests that their client has disconnected", async () => {
  const numRequests = 3;
  const responses: ServerResponse[] = [];
  const numClosed: number[] = [];
  const areBegun = Promise.withResolvers<void>();
  const areClosed = Promise.withResolvers<void>();
  const handler: RequestListener = (_, response) => {
    const index = responses.push(response) - 1;
    numClosed.push(0);
    response.on("close", () => {
      numClosed[index]!++;
      if (numClosed.every((count) => count > 0)) areClosed.resolve();
    });
    if (responses.length === numRequests) areBegun.resolve();
  };
  await withListener(handler, async (connection) => {
    await connection.write(encoder.encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(numRequests)));
    await areBegun.promise;
    // This answer is complete, but cannot be sent before the first one.
    responses[1]!.end("second");
    connection.close();
    await areClosed.promise;
    // An answer that comes too late is dropped.
    responses[2]!.on("error", () => {}).end("third");
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(numClosed, [1, 1, 1]);
    assert.ok(responses.every(({ destroyed }) => destroyed));
  });
});

Deno.test("Listener closes connections without a request, and those that are idle after one", async () => {
  await using hasty = new TestListener(() => {}, { headMs: 300 });
  using silent = await connect(hasty.port);
  using begun = await connect(hasty.port);
  await begun.write(encoder.encode("GET / HTTP/1.1\r\nHost: "));
  await using listener = new TestListener((_, response) => response.end("here"), {
    keepAliveMs: 1,
  });
  using served = await connect(listener.port);
  await served.write(encoder.encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  const [ofSilent, ofBegun, ofServed] = await Promise.all([silent, begun, served].map(readAll));
  assert.match(ofSilent!, /^HTTP\/1.1 408 .*"request_timeout"/s);
  assert.match(ofBegun!, /^HTTP\/1.1 408 .*"request_timeout"/s);
  assert.match(ofServed!, /^HTTP\/1.1 200 .*here$/s);
});

Deno.test("Listener does not change chunks of a large body while more of it arrives", async () => {
  const received = Promise.withResolvers<Uint8Array[]>();
  await using listener = new TestListener((incoming, outgoing) => {
    const chunks: Uint8Array[] = [];
    incoming.on("data", (chunk) => chunks.push(chunk));
    incoming.on("end", () => {
      received.resolve(chunks);
      outgoing.end();
    });
  });
  const body = new Uint32Array(4 * 2 ** 20).map((_, i) => Math.imul(i, 0x9e3779b1));
  await (await fetch(listener.base, { method: "POST", body })).text();
  const chunks = await received.promise;
  assert.ok(chunks.some(({ length }) => length >= 64 * 1024), "the test needs large reads");
  assert.equal(Buffer.compare(Buffer.concat(chunks), new Uint8Array(body.buffer)), 0);
});
