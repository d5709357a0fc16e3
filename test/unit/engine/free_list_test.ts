import assert from "node:assert/strict";
import { FreeList } from "../../../src/engine/idle_blocks.ts";
import { Random } from "./random.ts";

Deno.test("FreeList.takeFirst() returns blocks in order until there are none", () => {
  const list = new FreeList(3);
  assert.deepEqual([...list], [0, 1, 2]);
  assert.deepEqual([0, 1, 2, 3].map(() => list.takeFirst()), [0, 1, 2, undefined]);
  assert.equal(list.length, 0);
});

Deno.test("FreeList behaves like an array in 5,000 random operations", () => {
  const random = new Random(1);
  const list = new FreeList(9);
  let expected = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  for (let i = 0; i < 5000; i++) {
    const blockId = random.between(0, 8);
    if (random.chance(0.2)) assert.equal(list.takeFirst(), expected.shift());
    else if (expected.includes(blockId)) {
      list.remove(blockId);
      expected = expected.filter((id) => id !== blockId);
    } else if (random.chance(0.5)) {
      list.pushFirst(blockId);
      expected.unshift(blockId);
    } else {
      list.pushLast(blockId);
      expected.push(blockId);
    }
    assert.deepEqual([...list], expected);
    assert.equal(list.length, expected.length);
    assert.equal(list.has(blockId), expected.includes(blockId));
  }
});

Deno.test("FreeList refuses to add a block twice and to remove one that is not in it", () => {
  const list = new FreeList(2);
  assert.throws(() => list.pushLast(1), /Block 1 is free already/);
  assert.throws(() => list.pushFirst(1), /Block 1 is free already/);
  list.remove(1);
  assert.throws(() => list.remove(1), /Block 1 is not free/);
});

Deno.test("FreeList.resize() puts new blocks first, drops removed ones, and refuses to remove a block in use", () => {
  const list = new FreeList(3);
  list.remove(1);
  list.resize(5);
  assert.deepEqual([...list], [3, 4, 0, 2]);
  list.pushLast(1);
  list.resize(2);
  assert.deepEqual([...list], [0, 1]);
  assert.equal(list.length, 2);
  list.remove(1);
  assert.throws(() => list.resize(1), /Block 1 is not free/);
});
