import assert from "node:assert/strict";
import { EncoderSlots } from "../../../src/decoder/encoder_decoder.ts";

/** Assigns slots, as before a step. @returns the slots, and the inputs that must be encoded, now marked as encoded. */
function step(slots: EncoderSlots, inputs: readonly object[]): [number[], object[]] {
  const { slots: assigned, missing } = slots.assign(inputs);
  for (const [input, slot] of missing) slots.keep(input, slot);
  return [assigned, [...missing.keys()]];
}

Deno.test("EncoderSlots keeps inputs until others need their slots, the least recently used first", () => {
  const slots = new EncoderSlots(2);
  const [a, b, c] = [{ a: 1 }, { b: 1 }, { c: 1 }];
  const [[ofA], missing] = step(slots, [a]);
  assert.deepEqual(missing, [a]);
  const [both, onlyB] = step(slots, [a, b]);
  assert.deepEqual([both[0], onlyB], [ofA, [b]]);
  assert.notEqual(both[1], ofA);
  step(slots, [b]);
  assert.deepEqual(step(slots, [c, b]), [[ofA, both[1]], [c]]);
  assert.deepEqual(step(slots, [a])[1], [a]);
});

Deno.test("EncoderSlots gives sequences with the same input one slot, and encodes it once", () => {
  const slots = new EncoderSlots(2);
  const a = {};
  const [[first, second], missing] = step(slots, [a, a]);
  assert.equal(first, second);
  assert.deepEqual(missing, [a]);
});

Deno.test("EncoderSlots does not keep inputs that could not be encoded", () => {
  const slots = new EncoderSlots(1);
  const a = {};
  assert.equal(slots.assign([a]).missing.size, 1);
  assert.equal(slots.assign([a]).missing.size, 1);
  assert.throws(() => slots.assign([a, {}]), /more encoder inputs than the 1 slots/);
});

Deno.test("EncoderSlots.release() frees a slot for the next input, even if others were never used", () => {
  const slots = new EncoderSlots(3);
  const [a, b, c] = [{ a: 1 }, { b: 1 }, { c: 1 }];
  const [[ofA, ofB]] = step(slots, [a, b]);
  slots.release(a);
  assert.deepEqual(step(slots, [c, b]), [[ofA, ofB], [c]]);
  // `a` was removed: otherwise it would not have to be encoded.
  assert.deepEqual(step(slots, [a])[1], [a]);
  slots.release({});
});
