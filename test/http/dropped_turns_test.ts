import assert from "node:assert/strict";
import type { InputItem } from "../../src/wire/responses_request.ts";
import type { ResponseObject } from "../../src/wire/responses_response.ts";
import { planTruncations, ResponseStore } from "../../src/server/http/responses/response_store.ts";

const CONTEXT = 100;

function message(role: "user" | "assistant", content: string): InputItem {
  return { type: "message", role, content } as InputItem;
}

function turns(count: number, numChars: number): InputItem[] {
  return Array.from({ length: count }, () => message("user", "x".repeat(numChars)));
}

Deno.test("planTruncations() doubles the number of dropped turns up to half of all, then drops half of the rest each time", () => {
  const tries = (count: number) => [...planTruncations(turns(count, 1), CONTEXT)];
  assert.deepEqual(tries(1), [0]);
  assert.deepEqual(tries(2), [0, 1]);
  assert.deepEqual(tries(32), [0, 1, 2, 4, 8, 16, 24, 28, 30, 31]);
});

Deno.test("planTruncations() tries no prompt that is certainly too long", () => {
  const [first] = planTruncations(turns(4_000, 1_000), CONTEXT);
  assert.equal(first, 3_997);
  assert.deepEqual([...planTruncations(turns(4_000, 1_000_000), CONTEXT)], [3_999]);
  assert.equal(planTruncations(turns(4_000, 1_000)).next().value, 0);
});

Deno.test("planTruncations() drops whole turns", () => {
  const answered = turns(20, 1).flatMap((item) => [item, message("assistant", "y".repeat(1_000))]);
  for (const dropped of planTruncations(answered, CONTEXT)) assert.equal(dropped % 2, 0);
  assert.equal(planTruncations(answered, CONTEXT).next().value, 34);
});

Deno.test("ResponseStore.add() measures text in bytes, whatever its script", () => {
  const store = new ResponseStore({ maxResponses: 10, maxBytes: 2000 });
  const add = (id: string, letter: string) => {
    const response = { id, output: [], user: letter.repeat(600) } as unknown as ResponseObject;
    store.add({ response, input: [] });
  };
  add("latin", "a");
  const latinBytes = store.numBytes;
  assert.ok(latinBytes > 600 && latinBytes < 700, String(latinBytes));
  add("chinese", "语");
  assert.equal(store.size, 1, "the older response was evicted");
  assert.ok(store.numBytes > 1800 && store.numBytes < 1900, String(store.numBytes));
});
