import assert from "node:assert/strict";
import { type App, bridge } from "../../src/server/http/connection/node_bridge.ts";
import { sleep, within } from "../../src/base/timing.ts";
import { TestListener } from "../fixtures/servers/listener.ts";

const MIB = 1024 * 1024;
const encoder = new TextEncoder();

/** Serves `app` on a free port. */
function listen(app: App): TestListener {
  return new TestListener(bridge(app));
}

/** Writes `pieces` one after the other, each in its own packet. */
async function send(port: number, pieces: readonly string[]): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  connection.setNoDelay(true);
  for (const piece of pieces) {
    await connection.write(encoder.encode(piece));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return connection;
}

async function readAll(connection: Deno.TcpConn): Promise<string> {
  return await new Response(connection.readable).text();
}

function post(body: string): string {
  return `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`;
}

Deno.test("bridge() aborts the signal when a client disconnects while the handler is working", async () => {
  const requests: readonly string[][] = [
    [post("{}") + "{}"],
    [post("{}"), "{}"],
    [post("{{}}") + "{{", "}}"],
    [post("x".repeat(100_000)) + "x".repeat(100_000)],
    [
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
      "2\r\n{}\r\n",
      "0\r\n\r\n",
    ],
    ["GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
  ];
  for (const pieces of requests) {
    const reached = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    await using server = listen(async (request, { completed }) => {
      await request.text();
      request.signal.addEventListener("abort", () => aborted.resolve());
      completed.then(ended.resolve);
      reached.resolve();
      await aborted.promise;
      return new Response("nobody reads this");
    });
    const connection = await send(server.port, pieces);
    await reached.promise;
    connection.close();
    await Promise.all([aborted.promise, ended.promise]);
  }
});

Deno.test("bridge() makes reading fail when a client disconnects in the middle of its body", async () => {
  const failure = Promise.withResolvers<unknown>();
  await using server = listen(async (request) => {
    await request.text().catch(failure.resolve);
    return new Response(null);
  });
  const connection = await send(server.port, [post("x".repeat(1000)), "xxx"]);
  connection.close();
  assert.match(String(await failure.promise), /the client went away/);
});

Deno.test("bridge() joins the chunks of a body that have arrived", async () => {
  const numBytes = 100_000;
  let numPieces = 0;
  await using server = listen(async (request) => {
    const text: string[] = [];
    for await (const piece of request.body!.pipeThrough(new TextDecoderStream())) {
      text.push(piece);
      numPieces++;
    }
    return new Response(String(text.join("").length));
  });
  using connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
  await connection.write(encoder.encode(
    "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" +
      "1\r\nx\r\n".repeat(numBytes) + "0\r\n\r\n",
  ));
  assert.match(await readAll(connection), new RegExp(`\r\n${numBytes}$`));
  assert.ok(numPieces < numBytes / 100, `${numPieces} pieces`);
});

Deno.test("bridge() delivers an answer to a client that is still sending", async () => {
  await using server = listen(async (request) => {
    const reader = request.body!.getReader();
    await reader.read();
    await reader.cancel();
    return new Response("too large", { status: 413 });
  });
  const body = new Uint8Array(20 * MIB);
  for (const sent of [body, new Blob([body]).stream()]) {
    const response = await fetch(server.base, { method: "POST", body: sent });
    assert.equal(response.status, 413);
    assert.equal(await response.text(), "too large");
  }
});

Deno.test("bridge() receives a body no faster than it is read", async () => {
  const goOn = Promise.withResolvers<void>();
  await using server = listen(async (request) => {
    await goOn.promise;
    return new Response(String((await request.arrayBuffer()).byteLength));
  });
  let numSent = 0;
  const pieces = 64;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (numSent++ < pieces) controller.enqueue(new Uint8Array(MIB));
      else controller.close();
    },
  });
  const answer = fetch(server.base, { method: "POST", body });
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.ok(numSent < pieces, `${numSent} MiB were taken`);
  goOn.resolve();
  assert.equal(await (await answer).text(), String(pieces * MIB));
});

Deno.test("bridge() streams events one by one, no faster than they are read, until the client disconnects", async () => {
  let numPulled = 0;
  const begun = Promise.withResolvers<void>();
  const cancelled = Promise.withResolvers<void>();
  await using server = listen(() => {
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        numPulled++;
        begun.resolve();
        controller.enqueue(new Uint8Array(MIB));
      },
      cancel: () => cancelled.resolve(),
    });
    return Promise.resolve(
      new Response(body, { headers: { "content-type": "text/event-stream" } }),
    );
  });
  const connection = await send(server.port, ["GET / HTTP/1.1\r\nHost: x\r\n\r\n"]);
  await begun.promise;
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.ok(numPulled < 64, `${numPulled} MiB were written`);
  connection.close();
  await cancelled.promise;
});

Deno.test("bridge() notices that the client of a silent event stream has disconnected", async () => {
  const cancelled = Promise.withResolvers<string>();
  await using server = listen(() => {
    const body = new ReadableStream<Uint8Array>({ cancel: () => cancelled.resolve("cancelled") });
    return Promise.resolve(
      new Response(body, { headers: { "content-type": "text/event-stream" } }),
    );
  });
  const connection = await send(server.port, ["GET / HTTP/1.1\r\nHost: x\r\n\r\n"]);
  await connection.read(new Uint8Array(1024));
  connection.close();
  assert.equal(await within(cancelled.promise, 60_000), "cancelled");
});

Deno.test("bridge() writes comments between the lines of a half-closed client's events, and not into them", async () => {
  const half = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>();
  await using server = listen(() => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => half.resolve(controller),
    });
    return Promise.resolve(
      new Response(body, { headers: { "content-type": "text/event-stream" } }),
    );
  });
  const head = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  using connection = await send(server.port, [head]);
  const events = await half.promise;
  events.enqueue(encoder.encode("data: one\n\ndata: tw"));
  await sleep(50);
  await connection.closeWrite();
  // Leaves time for two probes in the middle of a line.
  await sleep(300);
  events.enqueue(encoder.encode("o\n\n"));
  let received = "";
  const decoder = new TextDecoder();
  for await (const chunk of connection.readable.values({ preventCancel: true })) {
    received += decoder.decode(chunk);
    if (received.includes(": keep-alive")) break;
  }
  // Removes the sizes of chunks.
  const body = received.slice(received.indexOf("data")).replace(/\r\n(?:[0-9a-f]+\r\n)?/g, "");
  assert.match(body, /^data: one\n\ndata: two\n\n: keep-alive\n/);
});

Deno.test("bridge() answers 100 Continue to a client that waits for it only when the handler reads the body", async () => {
  await using server = listen(async ({ url, body }) => {
    if (!url.endsWith("/read")) return new Response("refused", { status: 404 });
    return new Response(await new Response(body).text());
  });
  const head = (path: string) =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n`;
  const buffer = new Uint8Array(1024);
  const readSome = async (connection: Deno.TcpConn) => {
    const length = await connection.read(buffer);
    return new TextDecoder().decode(buffer.subarray(0, length ?? 0));
  };

  const refused = await send(server.port, [head("/other")]);
  const answer = await readAll(refused);
  assert.match(answer, /^HTTP\/1\.1 404 Not Found\r\n[^]*connection: close\r\n[^]*refused$/i);

  const asked = await send(server.port, [head("/read")]);
  assert.equal(await readSome(asked), "HTTP/1.1 100 Continue\r\n\r\n");
  await asked.write(encoder.encode("hello"));
  assert.match(await readSome(asked), /^HTTP\/1\.1 200 OK\r\n[^]*hello$/);
  // The connection serves another request.
  await asked.write(encoder.encode(post("again") + "again"));
  assert.match(await readSome(asked), /^HTTP\/1\.1 404 /);
  asked.close();

  // 100-continue may be one of several expectations.
  const listing = await send(server.port, [head("/read").replace("\r\n\r\n", ", x\r\n\r\n")]);
  assert.equal(await readSome(listing), "HTTP/1.1 100 Continue\r\n\r\n");
  await listing.write(encoder.encode("hello"));
  assert.match(await readSome(listing), /200 OK\r\n[^]*hello$/);
  listing.close();

  // Other expectations are ignored (RFC 9110, 10.1.1).
  const hopeful = await send(server.port, [
    head("/read").replace("100-Continue", "a-cake"),
    "hello",
  ]);
  assert.match(await readSome(hopeful), /^HTTP\/1\.1 200 OK\r\n[^]*hello$/);
  hopeful.close();

  // HTTP/1.0 has no interim responses.
  const old = await send(server.port, [head("/read").replace("HTTP/1.1", "HTTP/1.0"), "hello"]);
  assert.match(await readAll(old), /^HTTP\/1\.1 200 OK\r\n[^]*hello$/);

  // A method that never reaches the app is refused without waiting for the body, too.
  const traced = await send(server.port, [head("/").replace("POST", "TRACE")]);
  assert.match(await readAll(traced), /^HTTP\/1\.1 405 [^]*connection: close\r\n/i);

  // Some clients wait for a second, and then send their body anyway.
  const impatient = await send(server.port, [`${head("/read")}hello`]);
  assert.match(await readSome(impatient), /200 OK\r\n[^]*hello$/);
  impatient.close();
});

Deno.test("bridge() passes on method, address, headers and caller, and answers with a length", async () => {
  await using server = listen(async (request, { callerAddress }) => {
    const { method, url, headers } = request;
    return Response.json({
      method,
      url,
      callerAddress,
      x: headers.get("x"),
      body: await request.text(),
    });
  });
  const connection = await send(server.port, [
    "POST //a%2Fb?c=d HTTP/1.1\r\nHost: hearth.example:1\r\nX: 1\r\nx: 2\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
  ]);
  const [head, body] = (await readAll(connection)).split("\r\n\r\n");
  assert.match(head!, new RegExp(`content-length: ${body!.length}`, "i"));
  assert.deepEqual(JSON.parse(body!), {
    method: "POST",
    url: "http://hearth.example:1//a%2Fb?c=d",
    callerAddress: "127.0.0.1",
    x: "1, 2",
    body: "hi",
  });
  const answer = await fetch(server.base, { method: "HEAD" });
  assert.ok(Number(answer.headers.get("content-length")) > 0);
  assert.equal(await answer.text(), "");
});

Deno.test("bridge() gives no length for an answer to HEAD whose body was removed", async () => {
  await using server = listen(() => Promise.resolve(new Response(null)));
  const answer = await fetch(server.base, { method: "HEAD" });
  assert.equal(answer.headers.get("content-length"), null);
});

Deno.test("bridge() refuses requests that a Request object cannot represent, and serves the next", async () => {
  await using server = listen(() => Promise.resolve(new Response("ok")));
  for (const line of ["TRACE / HTTP/1.1", "OPTIONS * HTTP/1.1"]) {
    const connection = await send(server.port, [`${line}\r\nHost: x\r\nConnection: close\r\n\r\n`]);
    const answer = await readAll(connection);
    assert.match(answer, /^HTTP\/1\.1 405 /);
    assert.match(answer, /^allow: GET, HEAD, POST, DELETE, OPTIONS\r$/m);
    assert.match(answer, /^x-request-id: [\da-f-]{36}\r$/m);
    assert.match(answer, /"code":"method_not_allowed"/);
  }
  assert.equal(await (await fetch(server.base)).text(), "ok");
});

Deno.test("bridge() refuses requests of HTTP/1.1 without a host, with an error and an id", async () => {
  await using server = listen(() => Promise.resolve(new Response("ok")));
  for (const start of ["GET /x HTTP/1.1\r\n", "POST /x HTTP/1.1\r\nContent-Length: 2\r\n"]) {
    const connection = await send(server.port, [`${start}Connection: close\r\n\r\n`]);
    const [head, body] = (await readAll(connection)).split("\r\n\r\n");
    assert.match(head!, /^HTTP\/1\.1 400 /);
    assert.match(head!, /^x-request-id: [\da-f-]{36}\r$/m);
    assert.match(JSON.parse(body!).error.message, /Host/);
  }
  const old = await send(server.port, ["GET / HTTP/1.0\r\n\r\n"]);
  assert.match(await readAll(old), /^HTTP\/1\.1 200 OK\r\n[^]*ok$/);
});

Deno.test("bridge() answers 500 if an answer fails, and serves the next request", async () => {
  await using server = listen((request) => {
    if (!request.url.endsWith("/broken")) return Promise.resolve(new Response("ok"));
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error("boom")) });
    return Promise.resolve(new Response(body));
  });
  const broken = await fetch(`${server.base}/broken`);
  assert.equal(broken.status, 500);
  assert.equal(await broken.text(), "");
  assert.equal(await (await fetch(server.base)).text(), "ok");
});
