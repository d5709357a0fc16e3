/** What clients and operators can observe of the context's limits and the prefix cache. */
import assert from "node:assert/strict";
import { MODEL, TestServer } from "../fixtures/servers/server.ts";

/** A prompt of `words` words, each at least a token. Prompts with different numbers share no beginning. */
function makePrompt(number: number, words: number): string {
  return `${number} ${
    Array.from({ length: words }, (_, i) => `word${(i * 7 + number) % 50}`).join(" ")
  }`;
}

function complete(server: TestServer, prompt: string): Promise<Response> {
  return server.app.post("/v1/completions", { model: MODEL, prompt, max_tokens: 2 });
}

for (
  const [flag, setting] of [
    ["--max-model-len", { maxModelLength: 64 }],
    ["--kv-cache-mb", { kvCacheMb: 1 }],
  ] as const
) {
  Deno.test(`a prompt that is too long for ${flag} is refused with the limit, its reason and the flag`, async () => {
    await using server = await TestServer.start({ engine: { prefixCache: true, ...setting } });
    const { data: [{ max_model_len: most }] } = await (await server.app.request("/v1/models"))
      .json();
    const response = await complete(server, makePrompt(1, most));
    assert.equal(response.status, 400);
    const { error } = await response.json();
    assert.equal(error.code, "context_length_exceeded");
    assert.ok(error.message.includes(`maximum context length is ${most} tokens`), error.message);
    assert.ok(error.message.includes(flag), error.message);
    assert.match(error.message, /the prompt has \d+/);
    assert.equal((await complete(server, makePrompt(2, 5))).status, 200);
  });
}

Deno.test("/metrics counts prompt tokens found in the prefix cache, and evicted blocks", async () => {
  await using server = await TestServer.start({ engine: { prefixCache: true, kvCacheMb: 1 } });
  const figures = async () => ({
    asked: await server.figure("hearth_prefix_query_tokens_total"),
    hits: await server.figure("hearth_prefix_hit_tokens_total"),
    evicted: await server.figure("hearth_prefix_evicted_blocks_total"),
  });
  const first = makePrompt(1, 20);
  assert.equal((await complete(server, first)).status, 200);
  const once = await figures();
  assert.ok(once.asked > 20);
  assert.deepEqual([once.hits, once.evicted], [0, 0]);
  assert.equal((await complete(server, first)).status, 200);
  const twice = await figures();
  assert.equal(twice.asked, 2 * once.asked);
  assert.ok(twice.hits > once.asked - 17, `${twice.hits} of ${once.asked} tokens`);
  // Other prompts take the memory of the least recently used ones.
  for (let number = 2; number < 12; number++) {
    assert.equal((await complete(server, makePrompt(number, 40))).status, 200);
  }
  const later = await figures();
  assert.ok(later.evicted > 0);
  assert.equal((await complete(server, first)).status, 200);
  assert.equal((await figures()).hits, later.hits, "evicted blocks are not found");
});
