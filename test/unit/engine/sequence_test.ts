import assert from "node:assert/strict";
import { countFrom, makeSequence } from "./make_sequence.ts";

Deno.test("Sequence.push() grows the completion only up to maxLength", () => {
  const sequence = makeSequence(countFrom(0, 3), { maxLength: 5 });
  assert.equal(sequence.length, 3);
  sequence.push(7);
  assert.equal(sequence.isFull, false);
  sequence.push(8);
  assert.equal(sequence.isFull, true);
  assert.deepEqual([...sequence.tokens.view()], [0, 1, 2, 7, 8]);
  assert.throws(() => sequence.push(9), /all of its 5 tokens/);
  assert.equal(sequence.length, 5);
});

Deno.test("Sequence.push() updates its sampling state", () => {
  const sequence = makeSequence([1, 2]);
  assert.equal(sequence.sampling.tokenIndex, 0);
  sequence.push(5);
  sequence.push(6);
  assert.equal(sequence.sampling.tokenIndex, 2);
});
