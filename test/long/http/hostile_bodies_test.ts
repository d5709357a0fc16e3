import assert from "node:assert/strict";
import { TestServer } from "../../fixtures/servers/server.ts";
import { HEAVY } from "../../load/hostile.ts";
import { MODELS, smallRequest } from "../../load/small_requests.ts";

/** Status for a text that is within the body limit and longer than every context. */
const TOO_LONG = { text: "400", embedding: "200", rerank: "200" } as const;

for (const [kind, tooLong] of Object.entries(TOO_LONG) as [keyof typeof TOO_LONG, string][]) {
  Deno.test(`bodies of megabytes are refused, or truncated if allowed, and small ones answered meanwhile: ${kind}`, async () => {
    await using server = await TestServer.start({ model: MODELS[kind] });
    const small = smallRequest(kind);
    const ends = Object.entries(HEAVY).map(async ([name, send]) =>
      [name, await send({ url: server.base, small })] as const
    );
    const { path, body, headers } = small;
    const response = await fetch(server.base + path, { method: "POST", body, headers });
    assert.equal(response.status, 200, await response.text());
    for (const [name, end] of await Promise.all(ends)) {
      assert.equal(end, name.startsWith("4.9 MB") ? tooLong : "413", name);
    }
  });
}

/** Positions of text that claims to be media, in place of `…`. */
const TEXT_FIELDS: readonly (readonly [keyof typeof TOO_LONG, body: string])[] = [
  ["text", '{"messages":[{"role":"user","content":"…"}]}'],
  ["text", '{"messages":[{"role":"user","content":[{"type":"text","text":"…"}]}]}'],
  ["embedding", '{"truncate":true,"input":["…"]}'],
  ["rerank", '{"truncate":true,"query":"snow","documents":["…"]}'],
];
const CLAIMED_BYTES = 100 * 2 ** 20;
/** The most bytes that the server and socket buffers may take of such a body. */
const MOST_TAKEN_BYTES = 32 * 2 ** 20;

for (const kind of Object.keys(TOO_LONG) as (keyof typeof TOO_LONG)[]) {
  Deno.test(`100 MiB of text that claims to be media are refused before they are read: ${kind}`, async () => {
    await using server = await TestServer.start({ model: MODELS[kind] });
    const small = smallRequest(kind);
    const bodies = TEXT_FIELDS.filter(([of]) => of === kind).map(([, body]) => body);
    for (const body of bodies) {
      for (const prefix of ["data:", "base64://"]) {
        const sending = sendClaimed(server.base + small.path, body.replace("…", `${prefix}…`));
        // A small request is answered meanwhile.
        const answer = await fetch(server.base + small.path, {
          method: "POST",
          body: small.body,
          headers: small.headers,
        });
        assert.equal(answer.status, 200, await answer.text());
        const { status, numBytes } = await sending;
        assert.equal(status, "413", body + prefix);
        assert.ok(numBytes <= MOST_TAKEN_BYTES, `${numBytes} bytes were taken: ${body}${prefix}`);
      }
    }
  });
}

/** Sends 100 MiB of text in place of `…` until there is an answer. */
async function sendClaimed(
  url: string,
  body: string,
): Promise<{ readonly status: string; readonly numBytes: number }> {
  const { hostname, port, host, pathname } = new URL(url);
  const [before, after] = body.split("…") as [string, string];
  using tcp = await Deno.connect({ hostname, port: Number(port) });
  const text = new TextEncoder();
  const head = `POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${before.length + CLAIMED_BYTES + after.length}\r\n\r\n${before}`;
  let numBytes = 0;
  let status = "";
  const answered = (async () => {
    const answer = new Uint8Array(16);
    await tcp.read(answer);
    status = new TextDecoder().decode(answer).split(" ")[1]!;
  })();
  const piece = text.encode("snow ".repeat(2 ** 16));
  try {
    await tcp.write(text.encode(head));
    while (status === "" && numBytes < CLAIMED_BYTES) numBytes += await tcp.write(piece);
  } catch {
    // The server has closed the connection.
  }
  await answered;
  return { status, numBytes };
}
