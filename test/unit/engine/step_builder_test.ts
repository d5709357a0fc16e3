import assert from "node:assert/strict";
import { StepBuilder } from "../../../src/engine/step_builder.ts";
import { countFrom, makeSequence } from "./make_sequence.ts";
import { limitsOf } from "./simulated_decoder.ts";

Deno.test("StepBuilder.build() packs a next token and a chunk of a prompt", () => {
  const decoding = makeSequence(countFrom(10, 5));
  decoding.push(42);
  decoding.numComputed = 5;
  for (const blockId of [7, 3]) decoding.blockIds.push(blockId);
  const prefilling = makeSequence(countFrom(100, 12));
  prefilling.numComputed = 4;
  for (const blockId of [1, 0, 2]) prefilling.blockIds.push(blockId);

  const builder = new StepBuilder(limitsOf({ contextLength: 14, blockSize: 4 }));
  const batch = builder.build({
    scheduled: [
      { sequence: decoding, numTokens: 1, samples: true },
      { sequence: prefilling, numTokens: 6, samples: false },
    ],
    numTokens: 7,
  });
  assert.deepEqual(batch.sequences, [
    { sequenceId: decoding.id, sample: decoding.sampling },
    { sequenceId: prefilling.id, sample: undefined },
  ]);
  assert.equal(batch.numTokens, 7);
  assert.deepEqual([...batch.tokenIds.slice(0, 7)], [42, ...countFrom(104, 6)]);
  assert.deepEqual([...batch.positions.slice(0, 7)], [5, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual([...batch.queryStarts.slice(0, 3)], [0, 1, 7]);
  assert.deepEqual([...batch.kvLengths.slice(0, 2)], [6, 10]);
  assert.equal(batch.maxBlocksPerSequence, 4);
  assert.deepEqual([...batch.blockTables.slice(0, 2)], [7, 3]);
  assert.deepEqual([...batch.blockTables.slice(4, 7)], [1, 0, 2]);
});

Deno.test("StepBuilder.build() uses the same arrays for every step, sized for the largest", () => {
  const limits = limitsOf({ maxBatchTokens: 9, maxSequences: 3, contextLength: 64, numBlocks: 5 });
  const builder = new StepBuilder(limits);
  const sequence = makeSequence(countFrom(0, 9));
  const step = { scheduled: [{ sequence, numTokens: 9, samples: true }], numTokens: 9 };
  const first = builder.build(step);
  const second = builder.build({ ...step, scheduled: [{ ...step.scheduled[0]!, numTokens: 2 }] });
  assert.equal(second.tokenIds, first.tokenIds);
  assert.equal(second.positions, first.positions);
  assert.equal(second.queryStarts, first.queryStarts);
  assert.equal(second.kvLengths, first.kvLengths);
  assert.equal(second.blockTables, first.blockTables);
  assert.deepEqual(
    [first.tokenIds, first.positions, first.queryStarts, first.kvLengths, first.blockTables]
      .map((array) => array.length),
    [9, 9, 4, 3, 15],
  );
});
