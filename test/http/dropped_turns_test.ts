import assert from "node:assert/strict";
import type { InputItem } from "../../src/wire/responses_request.ts";
import { planTruncations } from "../../src/server/http/responses/response_store.ts";

const CONTEXT = 100;

function message(role: "user" | "assistant", content: string): InputItem {
  return { type: "message", role, content } as InputItem;
}

function turns(count: number, numChars: number): InputItem[] {
  return Array.from({ length: count }, () => message("user", "x".repeat(numChars)));
}

Deno.test("planTruncations() drops a few turns first, then half of the rest, and in the end all but one", () => {
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
