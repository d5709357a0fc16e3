import assert from "node:assert/strict";
import { connect } from "node:net";
import { BUDGET_BYTES, ReadBudget } from "../../src/server/http/connection/tcp_socket.ts";
import { yieldToEvents } from "../../src/base/timing.ts";
import { TestListener } from "../fixtures/servers/listener.ts";

/** Opens connections to a port, and sets the first number in the shared memory when all are open. */
const CLIENTS = `onmessage = async ({ data: { port, count, memory } }) => {
  const connect = () => Deno.connect({ hostname: "127.0.0.1", port });
  const connections = await Promise.all(Array.from({ length: count }, connect));
  const done = new Int32Array(memory);
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
  onmessage = () => {
    for (const connection of connections) connection.close();
    postMessage("closed");
  };
};`;

Deno.test("Listener accepts a few of the waiting connections in each iteration of the event loop", async () => {
  const count = 90;
  await using listener = new TestListener((_, response) => response.end());
  const url = URL.createObjectURL(new Blob([CLIENTS], { type: "text/javascript" }));
  const clients = new Worker(url, { type: "module" });
  const memory = new SharedArrayBuffer(4);
  clients.postMessage({ port: listener.port, count, memory });
  // This blocks the event loop, so nothing is accepted in the meantime.
  Atomics.wait(new Int32Array(memory), 0, 0);
  let most = 0;
  for (let before = 0; before < count;) {
    await yieldToEvents();
    const { open } = listener.figures;
    most = Math.max(most, open - before);
    before = open;
  }
  // 16 in the iteration that ends and 16 in the one that begins, and two to spare.
  assert.ok(most <= 2 * 16 + 2, `${most} connections in one iteration`);
  const closed = new Promise((resolve) => clients.onmessage = resolve);
  clients.postMessage("close");
  await closed;
  clients.terminate();
  URL.revokeObjectURL(url);
});

Deno.test("ReadBudget.take() lets a connection with data be read within 15 iterations, even if others use the whole budget", async () => {
  const readBudget = new ReadBudget();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using client = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
  using served = await listener.accept();
  for (let round = 0; round < 3; round++) {
    let isRead = false;
    const read = served.read(new Uint8Array(1)).then(() => isRead = true);
    // Lets the read begin to wait.
    await new Promise((resolve) => setTimeout(resolve, 20));
    await client.write(Uint8Array.of(0));
    let numTurns = 0;
    for (; !isRead; numTurns++) {
      const end = performance.now() + 5;
      while (performance.now() < end);
      await readBudget.take(BUDGET_BYTES);
    }
    await read;
    assert.ok(numTurns <= 15, `read after ${numTurns} iterations`);
  }
});

Deno.test("Listener does not count clients that are gone before they are accepted as failures", async () => {
  await using server = new TestListener((_incoming, outgoing) => outgoing.end("served"));
  const gone = Array.from({ length: 64 }, () => {
    const socket = connect(server.port, "127.0.0.1");
    // Resets the connection, after which the system still offers it to the server.
    socket.once("connect", () => socket.resetAndDestroy());
    return new Promise((resolve) => socket.once("close", resolve));
  });
  await Promise.all(gone);
  assert.equal(await (await fetch(server.base)).text(), "served");
  assert.equal(server.figures.failed, 0);
});
