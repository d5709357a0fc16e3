import assert from "node:assert/strict";
import { Int32List } from "../../../src/engine/int32_list.ts";

Deno.test("Int32List.push() keeps all values while it grows", () => {
  const list = new Int32List(Int32Array.of(-1, -2));
  for (let i = 0; i < 1000; i++) list.push(i);
  assert.equal(list.length, 1002);
  assert.deepEqual([...list.view(0, 4)], [-1, -2, 0, 1]);
  assert.equal(list.at(1001), 999);
  for (const index of [0, 1001]) list.set(index, 5);
  assert.deepEqual([list.at(0), list.at(1), list.at(1001)], [5, -2, 5]);
});

Deno.test("Int32List may start empty", () => {
  const list = new Int32List();
  assert.equal(list.length, 0);
  for (let i = 0; i < 100; i++) list.push(i);
  assert.deepEqual([...list.view()], Array.from({ length: 100 }, (_, i) => i));
});

Deno.test("Int32List does not change with the array it was created from", () => {
  const values = Int32Array.of(1, 2, 3);
  const list = new Int32List(values);
  values[0] = 9;
  assert.equal(list.at(0), 1);
});

Deno.test("Int32List refuses indices out of range", () => {
  const list = new Int32List(Int32Array.of(1, 2, 3));
  for (const index of [-1, 3, 7]) {
    assert.throws(() => list.at(index), RangeError);
    assert.throws(() => list.set(index, 0), RangeError);
  }
  list.clear();
  assert.throws(() => list.at(0), RangeError);
  assert.equal(list.view().length, 0);
});
