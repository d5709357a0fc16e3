import assert from "node:assert/strict";
import type { RequestListener } from "node:http";
import { type ModelAnswer, ModelClient } from "../../src/router/model_client.ts";
import { withServer } from "../fixtures/servers/local_server.ts";

const GET = { method: "GET", path: "/", body: null } as const;

function getClient(base: string): ModelClient {
  return new ModelClient(Number(new URL(base).port));
}

function send(
  client: ModelClient,
  request: Partial<Parameters<ModelClient["send"]>[0]> = {},
): Promise<ModelAnswer> {
  const headers = new Headers({ host: "localhost" });
  return client.send({ ...GET, headers, signal: new AbortController().signal, ...request });
}

async function readText(answer: ModelAnswer): Promise<string> {
  let text = "";
  for (let bytes = await answer.read(); bytes !== undefined; bytes = await answer.read()) {
    text += new TextDecoder().decode(bytes);
  }
  return text;
}

/** Calls `use` with a client of a server that counts its connections. */
async function withCounted(
  listener: RequestListener,
  use: (client: ModelClient, numConnections: () => number) => Promise<void>,
): Promise<void> {
  const sockets = new Set<unknown>();
  await withServer((incoming, outgoing) => {
    sockets.add(incoming.socket);
    return listener(incoming, outgoing);
  }, async (base) => {
    const client = getClient(base);
    await use(client, () => sockets.size);
    client.close();
  });
}

Deno.test("ModelClient reads bodies with a length, in chunks or without content, over one connection", async () => {
  const long = "0123456789".repeat(50_000);
  await withCounted((incoming, outgoing) => {
    switch (incoming.url) {
      case "/length":
        return outgoing.writeHead(200, { "content-length": 13 }).end("with a length");
      case "/none":
        return outgoing.writeHead(204).end();
      case "/empty":
        return outgoing.writeHead(200, { "content-length": 0 }).end();
      case "/chunks":
        outgoing.writeProcessing();
        for (let at = 0; at < long.length; at += 77_777) {
          outgoing.write(long.slice(at, at + 77_777));
        }
        return outgoing.end("\r\n");
      default:
        return outgoing.writeHead(200, { "set-cookie": ["a=1", "b=2"] }).end(long);
    }
  }, async (client, numConnections) => {
    for (let n = 0; n < 3; n++) {
      assert.equal(await readText(await send(client, { path: "/length" })), "with a length");
      const none = await send(client, { path: "/none" });
      assert.deepEqual([none.status, none.hasBody], [204, false]);
      assert.equal((await send(client, { path: "/empty" })).hasBody, false);
      assert.equal(await readText(await send(client, { path: "/chunks" })), `${long}\r\n`);
      const head = await send(client, { method: "HEAD", path: "/length" });
      assert.deepEqual([head.hasBody, head.headers.get("content-length")], [false, "13"]);
      const last = await send(client, { path: "/?a=b" });
      assert.deepEqual(last.headers.getSetCookie(), ["a=1", "b=2"]);
      assert.equal(await readText(last), long);
    }
    assert.equal(numConnections(), 1);
  });
});

Deno.test("ModelClient passes on each chunk when it arrives", async () => {
  let write: (text: string) => void = () => {};
  await withCounted((_incoming, outgoing) => {
    write = (text) => text === "" ? outgoing.end() : outgoing.write(text);
    outgoing.flushHeaders();
  }, async (client) => {
    const answer = await send(client);
    for (const text of ["data: 1\n\n", "x", "data: 2\r\n\r\n", "y".repeat(100_000)]) {
      write(text);
      let seen = "";
      while (seen.length < text.length) seen += new TextDecoder().decode(await answer.read());
      assert.equal(seen, text);
    }
    write("");
    assert.equal(await answer.read(), undefined);
  });
});

Deno.test("ModelClient reads a body that ends with the connection, and detects a truncated one", async () => {
  await withCounted((incoming, outgoing) => {
    const { socket } = incoming;
    if (incoming.url === "/cut") {
      socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort");
    } else if (incoming.url === "/torn") {
      socket.end("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n5\r\nsho");
    } else if (incoming.url === "/nothing") socket.destroy();
    else socket.end("HTTP/1.1 200 OK\r\n\r\nto the end");
    outgoing.on("error", () => {});
  }, async (client) => {
    assert.equal(await readText(await send(client)), "to the end");
    await assert.rejects(readText(await send(client, { path: "/cut" })), /ended before/);
    await assert.rejects(readText(await send(client, { path: "/torn" })), /ended before/);
    await assert.rejects(send(client, { path: "/nothing" }));
  });
});

Deno.test("ModelClient resends a request that a closing connection did not accept", async () => {
  await withCounted((incoming, outgoing) => {
    outgoing.end("ok");
    // Closes the connection after the answer, as an idle timeout does.
    outgoing.on("finish", () => setTimeout(() => incoming.socket.destroy(), 20));
  }, async (client, numConnections) => {
    for (let n = 1; n <= 5; n++) {
      const body = new TextEncoder().encode("a body");
      assert.equal(await readText(await send(client, { method: "POST", body })), "ok");
      assert.equal(numConnections(), n);
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
  });
});

Deno.test("ModelClient sends a stream with content-length if its length is known, and otherwise in chunks", async () => {
  const seen: unknown[] = [];
  await withCounted((incoming, outgoing) => {
    let numBytes = 0;
    incoming.on("data", ({ length }) => numBytes += length);
    incoming.on("end", () => {
      const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
      seen.push([length, encoding, numBytes]);
      outgoing.end("ok");
    });
  }, async (client) => {
    const body = () =>
      ReadableStream.from((function* () {
        for (let n = 0; n < 100; n++) yield new Uint8Array(10_000);
      })());
    await readText(await send(client, { method: "POST", body: body(), bodyBytes: 1_000_000 }));
    await readText(await send(client, { method: "POST", body: body() }));
    assert.deepEqual(seen, [["1000000", undefined, 1_000_000], [undefined, "chunked", 1_000_000]]);
  });
});

Deno.test("ModelClient stops sending a body when the answer arrives before its end", async () => {
  await withCounted((_incoming, outgoing) => {
    outgoing.writeHead(413, { connection: "close" }).end("too large");
  }, async (client) => {
    let isCancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
      cancel: () => {
        isCancelled = true;
      },
    });
    const answer = await send(client, { method: "POST", body, bodyBytes: 2 ** 40 });
    assert.equal(answer.status, 413);
    assert.equal(await readText(answer), "too large");
    while (!isCancelled) await new Promise((resolve) => setTimeout(resolve, 5));
  });
});

Deno.test("ModelClient closes the connection of an aborted request", async () => {
  const closed = Promise.withResolvers<void>();
  await withCounted((_incoming, outgoing) => {
    outgoing.write("the beginning");
    outgoing.on("close", () => closed.resolve());
  }, async (client) => {
    const abort = new AbortController();
    const answer = await send(client, { signal: abort.signal });
    assert.equal(new TextDecoder().decode(await answer.read()), "the beginning");
    abort.abort();
    await assert.rejects(answer.read());
    await closed.promise;
    await assert.rejects(send(client, { signal: abort.signal }));
  });
});
