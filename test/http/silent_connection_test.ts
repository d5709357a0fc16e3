import assert from "node:assert/strict";
import { Server } from "node:http";
import { TestListener } from "../fixtures/servers/listener.ts";

const REQUEST = new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");

async function connect(port: number): Promise<Deno.TcpConn> {
  return await Deno.connect({ hostname: "127.0.0.1", port });
}

async function connectMany(port: number, count: number): Promise<Deno.TcpConn[]> {
  return await Promise.all(Array.from({ length: count }, () => connect(port)));
}

async function readAll(connection: Deno.TcpConn): Promise<string> {
  return await new Response(connection.readable).text();
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Counts the sockets that servers of `node:http` get, until it is disposed. */
class SocketCount implements Disposable {
  count = 0;

  constructor() {
    const { emit } = Server.prototype;
    const listen = (event: unknown) => {
      if (event === "connection") this.count++;
    };
    Server.prototype.emit = function (this: Server, ...args: Parameters<typeof emit>) {
      listen(args[0]);
      return emit.apply(this, args);
    } as typeof emit;
  }

  [Symbol.dispose](): void {
    // Restores the prototype's method.
    Reflect.deleteProperty(Server.prototype, "emit");
  }
}

Deno.test("Listener does not pass a connection that closes silently to node:http, and keeps nothing of it", async () => {
  using sockets = new SocketCount();
  await using listener = new TestListener((_, response) => response.end("here"));
  const numFiles = () => [...Deno.readDirSync("/proc/self/fd")].length;
  const before = Deno.build.os === "linux" ? numFiles() : 0;
  for (const connection of await connectMany(listener.port, 50)) connection.close();
  const asking = await connect(listener.port);
  await asking.write(REQUEST);
  // When this request is answered, the earlier connections have been accepted.
  assert.match(await readAll(asking), /here$/);
  await until(() => listener.figures.open === 0);
  assert.equal(sockets.count, 1);
  if (Deno.build.os === "linux") assert.equal(numFiles(), before);
});

Deno.test("Listener counts silent connections, and answers those that send a request later", async () => {
  using sockets = new SocketCount();
  await using listener = new TestListener((_, response) => response.end("here"));
  const connections = await connectMany(listener.port, 20);
  await until(() => listener.figures.open === 20);
  assert.equal(sockets.count, 0);
  const [slow, ...others] = connections;
  await slow!.write(REQUEST.subarray(0, 1));
  await until(() => sockets.count === 1);
  await slow!.write(REQUEST.subarray(1));
  await others[0]!.write(REQUEST);
  for (const connection of [slow!, others[0]!]) assert.match(await readAll(connection), /here$/);
  await until(() => listener.figures.open === 18);
  assert.equal(sockets.count, 2);
  const closed = listener.close();
  for (const connection of others.slice(1)) connection.close();
  await closed;
  assert.equal(listener.figures.open, 0);
});

Deno.test("Listener at its limit closes the connection that has been silent longest, not one that has begun a request", async () => {
  await using listener = new TestListener((_, response) => response.end("here"));
  const { figures, port } = listener;
  using begun = await connect(port);
  await begun.write(REQUEST.subarray(0, 10));
  using first = await connect(port);
  using second = await connect(port);
  await until(() => figures.open === 3);
  const others = await connectMany(port, 97);
  await until(() => figures.open === 100);
  using last = await connect(port);
  assert.equal(await readAll(first), "");
  assert.equal(figures.refused, 1);
  await begun.write(REQUEST.subarray(10));
  await second.write(REQUEST);
  await last.write(REQUEST);
  for (const connection of [begun, second, last]) assert.match(await readAll(connection), /here$/);
  for (const connection of others) connection.close();
});

Deno.test("Listener measures the time limit for a request's headers from the accept, not from the first byte", async () => {
  await using listener = new TestListener((_, response) => response.end(), { headMs: 3_000 });
  using early = await connect(listener.port);
  await until(() => listener.figures.open === 1);
  await new Promise((resolve) => setTimeout(resolve, 400));
  using late = await connect(listener.port);
  await new Promise((resolve) => setTimeout(resolve, 200));
  await early.write(REQUEST.subarray(0, 10));
  const ended: string[] = [];
  await Promise.all(
    Object.entries({ early, late }).map(async ([name, connection]) => {
      assert.match(await readAll(connection), /^HTTP\/1.1 408 .*"request_timeout"/s);
      ended.push(name);
    }),
  );
  assert.deepEqual(ended, ["early", "late"]);
});
