import assert from "node:assert/strict";
import { ByteBudgetCache } from "../../../src/models/threads/active_requests.ts";

Deno.test("ByteBudgetCache.set() drops the least recently used values until the rest fits", () => {
  const dropped: string[] = [];
  const cache = new ByteBudgetCache<string>(10, (value) => dropped.push(value));
  cache.set("a", "A", 4);
  cache.set("b", "B", 4);
  assert.equal(cache.get("a"), "A");
  cache.set("c", "C", 4);
  assert.deepEqual(dropped, ["B"]);
  assert.equal(cache.get("b"), undefined);
  cache.set("d", "D", 2);
  assert.deepEqual([dropped, cache.numBytes], [["B"], 10]);
});

Deno.test("ByteBudgetCache.set() keeps a value above the budget until the next one arrives", () => {
  const dropped: string[] = [];
  const cache = new ByteBudgetCache<string>(10, (value) => dropped.push(value));
  cache.set("a", "A", 4);
  cache.set("large", "LARGE", 50);
  assert.deepEqual([dropped, cache.get("large"), cache.numBytes], [["A"], "LARGE", 50]);
  cache.set("b", "B", 1);
  assert.deepEqual([dropped, cache.get("large"), cache.numBytes], [["A", "LARGE"], undefined, 1]);
});

Deno.test("ByteBudgetCache.set() drops the replaced value, clear() drops all", () => {
  const dropped: string[] = [];
  const cache = new ByteBudgetCache<string>(10, (value) => dropped.push(value));
  cache.set("a", "old", 4);
  cache.set("a", "new", 6);
  assert.deepEqual([dropped, cache.numBytes], [["old"], 6]);
  cache.clear();
  assert.deepEqual([dropped, cache.numBytes], [["old", "new"], 0]);
});
