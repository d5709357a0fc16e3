import assert from "node:assert/strict";
import { MODEL, TestServer } from "../fixtures/servers/server.ts";

const NUM_HANG_UPS = 60;
const NUM_AT_ONCE = 6;

Deno.test("clients that disconnect while their answers follow a grammar leave nothing behind", async () => {
  await using server = await TestServer.start();
  const post = (body: object, signal?: AbortSignal) =>
    fetch(`${server.base}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: MODEL,
        messages: [{ role: "user", content: "Hello" }],
        ...body,
      }),
      ...(signal && { signal }),
    });
  const hangUp = async (index: number) => {
    const abort = new AbortController();
    // Each request has a new grammar, so that none is cached.
    const response = await post(
      { stream: true, temperature: 1, guided_regex: `[a-z ]{1500,1${600 + index}}` },
      abort.signal,
    );
    const reader = response.body!.getReader();
    for (let text = ""; !text.includes("data: ");) {
      text += new TextDecoder().decode((await reader.read()).value);
    }
    abort.abort();
  };
  for (let index = 0; index < NUM_HANG_UPS; index += NUM_AT_ONCE) {
    await Promise.all(Array.from({ length: NUM_AT_ONCE }, (_, at) => hangUp(index + at)));
  }
  await server.untilIdle();
  assert.equal(await server.figure("hearth_kv_blocks_used"), 0);
  assert.equal(await server.figure("hearth_worker_losses_total"), 0);
  const answer = await post({ guided_choice: ["yes", "no"] });
  const { choices: [choice] } = await answer.json();
  assert.ok(["yes", "no"].includes(choice.message.content));
});
