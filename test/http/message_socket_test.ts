import assert from "node:assert/strict";
import { BodyBudget } from "../../src/server/http/body/body.ts";
import { bridgeUpgrades, MessageSocket } from "../../src/server/http/connection/message_socket.ts";
import type { App } from "../../src/server/http/connection/node_bridge.ts";
import { TestListener } from "../fixtures/servers/listener.ts";
import { askForWebSocket, makeFrame, writeAll } from "../fixtures/servers/raw_web_socket.ts";

const encoder = new TextEncoder();

/** Echoes each message after `delayMs`. */
function echo({ beatMs, delayMs = 0 }: { beatMs?: number; delayMs?: number } = {}) {
  const budget = new BodyBudget(2 ** 26);
  const seen: { sockets: MessageSocket[]; numMessages: number } = { sockets: [], numMessages: 0 };
  const limits = { protocol: "echo", maxMessageBytes: 2 ** 24, budget, beatMs };
  const app: App = (_request, { upgrade }) =>
    Promise.resolve(
      upgrade!((connection) =>
        MessageSocket.accept(connection, limits, async (socket) => {
          seen.sockets.push(socket);
          for await (const bytes of socket) {
            seen.numMessages++;
            await new Promise((resolve) => setTimeout(resolve, delayMs));
            await socket.send(`${bytes.length}`);
          }
        })
      ),
    );
  const listener = new TestListener(
    (incoming, outgoing) =>
      incoming.on("data", () => {}).on("end", () => outgoing.end(`plain ${incoming.url}`)),
    { upgradeHandler: bridgeUpgrades(app), headMs: 1_000, keepAliveMs: 200 },
  );
  return { listener, budget, seen };
}

async function readSome(connection: Deno.TcpConn): Promise<string> {
  const bytes = new Uint8Array(4096);
  return new TextDecoder("latin1").decode(bytes.subarray(0, await connection.read(bytes) ?? 0));
}

Deno.test("MessageSocket outlives HTTP's timeouts", async () => {
  const { listener } = echo();
  await using _ = listener;
  const socket = new WebSocket(`ws://127.0.0.1:${listener.port}/`, ["other", "echo"]);
  const opened = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<string>();
  socket.onopen = () => opened.resolve();
  socket.onmessage = ({ data }) => answer.resolve(data);
  await opened.promise;
  assert.equal(socket.protocol, "echo");
  // HTTP's two timeouts close these later connections. By then, both have also passed for the WebSocket.
  using silent = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
  using served = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
  await served.write(encoder.encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  await Promise.all([silent, served].map((each) => new Response(each.readable).text()));
  socket.send("still here");
  assert.equal(await answer.promise, "10");
  const closed = new Promise((resolve) => socket.onclose = resolve);
  socket.close();
  await closed;
  while (listener.figures.open > 0) await new Promise((resolve) => setTimeout(resolve, 10));
});

Deno.test("MessageSocket drops a client that does not answer pings, and keeps one that does", async () => {
  const { listener, seen } = echo({ beatMs: 1_500 });
  await using _ = listener;
  const alive = new WebSocket(`ws://127.0.0.1:${listener.port}/`);
  await new Promise((resolve) => alive.onopen = resolve);
  using silent = await askForWebSocket(listener.base);
  await silent.readable.pipeTo(new WritableStream());
  assert.equal(seen.sockets[1]!.closed.aborted, true);
  assert.equal(seen.sockets[0]!.closed.aborted, false);
  const closed = new Promise((resolve) => alive.onclose = resolve);
  alive.close();
  await closed;
});

Deno.test("bridgeUpgrades() refuses handshakes without a host, with an error and an id", async () => {
  const { listener } = echo();
  await using _ = listener;
  using connection = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
  await connection.write(
    encoder.encode("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
  );
  const answer = await new Response(connection.readable).text();
  assert.match(answer, /^HTTP\/1\.1 400 [^]*x-request-id: [\da-f-]{36}\r\n[^]*Host: want/);
});

Deno.test("MessageSocket makes a client wait while its messages are not read, and counts their memory", async () => {
  const { listener, budget, seen } = echo({ delayMs: 50 });
  await using _ = listener;
  using connection = await askForWebSocket(listener.base);
  await readSome(connection);
  const frame = makeFrame("x".repeat(2 ** 20));
  let numWritten = 0;
  const writing = (async () => {
    for (; numWritten < 100; numWritten++) await writeAll(connection, frame);
  })().catch(() => {});
  while (seen.numMessages < 3) await new Promise((resolve) => setTimeout(resolve, 10));
  // Data in transit fills the system's buffers.
  assert.ok(numWritten < 30, `${numWritten} MiB were taken`);
  assert.ok(budget.numBytes > 2 ** 20 && budget.numBytes < 12 * 2 ** 20, `${budget.numBytes}`);
  connection.close();
  await writing;
  while (budget.numBytes > 0) await new Promise((resolve) => setTimeout(resolve, 10));
});

Deno.test("upgrades to anything but a WebSocket are plain requests, which a WebSocket may follow", async () => {
  const { listener } = echo();
  await using _ = listener;
  using connection = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
  await connection.write(encoder.encode(
    "POST /first HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
      "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: 2\r\n\r\n{}",
  ));
  assert.match(await readSome(connection), /^HTTP\/1\.1 200 .*plain \/first/s);
  await connection.write(encoder.encode(
    "GET /second HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n" +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  ));
  assert.match(await readSome(connection), /^HTTP\/1\.1 101 .*s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/s);
  await writeAll(connection, makeFrame("abc"));
  assert.equal(await readSome(connection), "\x81\x013");
});

Deno.test("an invalid handshake is answered with its fault", async () => {
  const { listener } = echo();
  await using _ = listener;
  using connection = await Deno.connect({ hostname: "127.0.0.1", port: listener.port });
  await connection.write(encoder.encode(
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
  ));
  assert.match(await readSome(connection), /^HTTP\/1\.1 400 .*Sec-WebSocket-Key/s);
});

Deno.test("MessageSocket does not change chunks of a large message that were read", async () => {
  const received = Promise.withResolvers<Uint8Array>();
  const limits = { protocol: "echo", maxMessageBytes: 2 ** 24, budget: new BodyBudget(2 ** 26) };
  await using listener = new TestListener(() => {}, {
    upgradeHandler: bridgeUpgrades((_request, { upgrade }) =>
      Promise.resolve(
        upgrade!((connection) =>
          MessageSocket.accept(connection, limits, async (socket) => {
            for await (const bytes of socket) received.resolve(bytes.slice());
          })
        ),
      )
    ),
  });
  const socket = new WebSocket(`ws://127.0.0.1:${listener.port}/`, ["echo"]);
  await new Promise((resolve) => socket.onopen = resolve);
  const text = Array.from({ length: 400_000 }, (_, i) => i).join(" ");
  const closed = new Promise((resolve) => socket.onclose = resolve);
  closed.then(() => received.reject(new Error("the connection was closed")));
  socket.send(text);
  assert.equal(new TextDecoder().decode(await received.promise), text);
  socket.close();
  await closed;
});
