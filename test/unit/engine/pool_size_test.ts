import assert from "node:assert/strict";
import { PoolSize } from "../../../src/engine/length_limits.ts";
import { makeLimits } from "./simulated_decoder.ts";

const LIMITS = makeLimits({ numBlocks: 100, roomyBlocks: 300, maxBlocks: 1000 });
const short = (numMissing: number) => ({ numMissing, numEvicted: numMissing });
const MINUTES = 60_000;

Deno.test("PoolSize.sizesFor() doubles, then asks for less", () => {
  const pool = new PoolSize(LIMITS);
  assert.deepEqual(pool.sizesFor(short(0), 0), []);
  assert.deepEqual(pool.sizesFor(short(1), 0), [200, 125, 105, 101]);
  assert.deepEqual(pool.sizesFor(short(150), 0), [250, 125, 105]);
  assert.deepEqual(pool.sizesFor(short(5000), 0), [1000, 125, 105], "no more than there may be");
  pool.set(1000, 0);
  assert.deepEqual(pool.sizesFor(short(1), 0), []);
});

Deno.test("PoolSize.sizesFor() keeps known prefixes up to a size, not beyond", () => {
  const pool = new PoolSize(LIMITS);
  const evicting = { numMissing: -5, numEvicted: 3 };
  assert.deepEqual(pool.sizesFor(evicting, 0), [200, 125, 105, 101]);
  pool.set(200, 0);
  assert.deepEqual(pool.sizesFor(evicting, 0), [300, 250, 210, 201]);
  pool.set(300, 0);
  assert.deepEqual(pool.sizesFor(evicting, 0), []);
  const fixed = new PoolSize(makeLimits({ numBlocks: 100 }));
  assert.deepEqual(fixed.sizesFor(short(9), 0), [], "a decoder whose pool keeps its size");
});

Deno.test("PoolSize asks a device that refused again after half a minute", () => {
  const pool = new PoolSize(LIMITS);
  pool.refuse(1000);
  assert.deepEqual(pool.sizesFor(short(1), 2000), []);
  assert.deepEqual([pool.mostAt(2000), pool.mostAt(40_000)], [100, 1000]);
  assert.deepEqual(pool.sizesFor(short(1), 40_000), [200, 125, 105, 101]);
});

Deno.test("PoolSize shrinks to what it may keep ten minutes after more than half was in use", () => {
  const pool = new PoolSize(LIMITS);
  assert.equal(pool.shrinksIn(0), undefined);
  pool.set(800, 0);
  assert.equal(pool.shrinksIn(MINUTES), 9 * MINUTES);
  pool.observe(401, 5 * MINUTES);
  pool.observe(400, 7 * MINUTES);
  assert.equal(pool.shrinksIn(6 * MINUTES), 9 * MINUTES);
  assert.equal(pool.shrinksIn(60 * MINUTES), 0);
  assert.equal(pool.restingSize, 300);
  pool.set(300, 60 * MINUTES);
  assert.equal(pool.shrinksIn(90 * MINUTES), undefined);
});
