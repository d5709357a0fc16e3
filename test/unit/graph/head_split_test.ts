import assert from "node:assert/strict";
import {
  HEAD_AXES,
  permute,
  regroup,
  ROW_AXES,
} from "../../../src/graph/attention/unmasked_attention.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";

const SIZES = { b: 2, t: 5, h: 3, d: 4 };

Deno.test("regroup() and permute() follow rows to heads and back", () => {
  const parted = regroup(ROW_AXES, [2, 5, 3, 4], SIZES)!;
  assert.deepEqual(parted, ["b", "t", "h", "d"]);
  const swap = makeNode("Transpose", ["x"], ["y"], { attributes: { perm: [0, 2, 1, 3] } });
  assert.deepEqual(permute(parted, swap), HEAD_AXES);
  assert.deepEqual(regroup(HEAD_AXES, [6, 5, 4], SIZES), ["bh", "t", "d"]);
  assert.deepEqual(regroup(["bh", "t", "d"], [2, 3, 5, 4], SIZES), HEAD_AXES);
  assert.deepEqual(regroup(parted, [2, 5, 12], SIZES), ROW_AXES);
});

Deno.test("regroup() refuses to divide an axis or to lose one", () => {
  assert.equal(regroup(HEAD_AXES, [2, 3, 5, 2, 2], SIZES), undefined);
  assert.equal(regroup(HEAD_AXES, [2, 3, 5], SIZES), undefined);
  assert.equal(regroup(ROW_AXES, [2, 5, 4, 3], SIZES), undefined);
});

Deno.test("permute() refuses a permutation of another rank, and reverses the axes by default", () => {
  const swap = makeNode("Transpose", ["x"], ["y"], { attributes: { perm: [1, 0] } });
  assert.equal(permute(ROW_AXES, swap), undefined);
  assert.deepEqual(permute(ROW_AXES, makeNode("Transpose", ["x"], ["y"])), ["hd", "t", "b"]);
});
