import assert from "node:assert/strict";
import { configureLog } from "../../src/base/log.ts";
import { TestListener } from "../fixtures/servers/listener.ts";

const encoder = new TextEncoder();
configureLog({ level: "error", format: "text" });

/** A server that reads a request, begins an answer and never ends it. */
function listen(): TestListener {
  return new TestListener((incoming, outgoing) => {
    incoming.resume().on("end", () => outgoing.write("begun"));
  });
}

/** Sends `pieces`, each after the answer to the previous one has begun, and reads to the end. */
async function exchange({ port }: TestListener, ...pieces: readonly string[]): Promise<string> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const reader = connection.readable.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (const piece of pieces) {
    await connection.write(encoder.encode(piece));
    for (let isDone = false; !isDone && !text.includes("begun");) {
      const read = await reader.read();
      isDone = read.done;
      text += read.value ?? "";
    }
  }
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    text += read.value;
  }
  return text;
}

Deno.test("answerMalformed() answers bytes that are not a request with an error and an id", async () => {
  await using server = listen();
  const long = `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"a".repeat(20_000)}\r\n\r\n`;
  const twoLengths = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
  const chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (
    const [bytes, status, code] of [
      ["hello\r\n\r\n", 400, "invalid_http"],
      ["BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_http"],
      [twoLengths, 400, "invalid_http"],
      [`${chunked}nonsense\r\n`, 400, "invalid_http"],
      [long, 431, "headers_too_large"],
    ] as const
  ) {
    const [head = "", body = ""] = (await exchange(server, bytes)).split("\r\n\r\n");
    assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} \\w`), bytes.slice(0, 50));
    assert.match(head, /^x-request-id: [\da-f-]{36}$/m);
    assert.ok(head.includes(`content-length: ${encoder.encode(body).length}\r\n`), head);
    assert.equal(JSON.parse(body).error.code, code);
  }
});

Deno.test("answerMalformed() writes nothing into an answer that has begun", async () => {
  await using server = listen();
  const text = await exchange(server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "hello\r\n\r\n");
  assert.match(text, /^HTTP\/1\.1 200 /);
  assert.doesNotMatch(text, /invalid_http/);
});

Deno.test("answerMalformed() writes nothing into an answer to one of several pipelined requests", async () => {
  const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
  for (const begun of ["/1", "/2"]) {
    await using server = new TestListener(({ url }, outgoing) => {
      if (url === begun) outgoing.write("begun");
      else if (url === "/1") outgoing.end("complete");
    });
    const text = await exchange(server, head("/1") + head("/2"), "hello\r\n\r\n");
    assert.match(text, /begun/);
    assert.doesNotMatch(text, /invalid_http/);
  }
});
