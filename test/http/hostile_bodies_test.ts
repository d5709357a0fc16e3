import assert from "node:assert/strict";
import { TestServer } from "../fixtures/server.ts";
import { HEAVY } from "../load/hostile.ts";
import { MODELS, smallRequest } from "../load/small_requests.ts";

/** What a text gets that is within the limit of a body and beyond every context. */
const TOO_LONG = { text: "400", embedding: "200", rerank: "200" } as const;

for (const [kind, tooLong] of Object.entries(TOO_LONG) as [keyof typeof TOO_LONG, string][]) {
  Deno.test(`bodies of megabytes are refused, or cut where they may be, and small ones answered beside them: ${kind}`, async () => {
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
