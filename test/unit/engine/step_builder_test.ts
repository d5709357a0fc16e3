import assert from "node:assert/strict";
import type { EmbeddingSource } from "../../../src/decoder/decoder.ts";
import { StepBuilder } from "../../../src/engine/step.ts";
import { countFrom, makeSequence } from "./make_sequence.ts";
import { makeLimits } from "./simulated_decoder.ts";

Deno.test("StepBuilder.build() packs a next token and a chunk of a prompt", () => {
  const decoding = makeSequence(countFrom(10, 5));
  decoding.push(42);
  decoding.numComputed = 5;
  for (const blockId of [7, 3]) decoding.blockIds.push(blockId);
  const prefilling = makeSequence(countFrom(100, 12));
  prefilling.numComputed = 4;
  for (const blockId of [1, 0, 2]) prefilling.blockIds.push(blockId);

  const builder = new StepBuilder(makeLimits({ contextLength: 14, blockSize: 4 }));
  const batch = builder.build({
    scheduled: [
      { sequence: decoding, numTokens: 1, samples: true },
      { sequence: prefilling, numTokens: 6, samples: false },
    ],
  });
  assert.deepEqual(batch.sequences, [
    {
      sequenceId: decoding.id,
      encoderInput: undefined,
      isDecoding: true,
      sample: decoding.sampling,
    },
    {
      sequenceId: prefilling.id,
      encoderInput: undefined,
      isDecoding: false,
      sample: undefined,
    },
  ]);
  assert.equal(batch.numTokens, 7);
  assert.deepEqual([...batch.tokenIds.slice(0, 7)], [42, ...countFrom(104, 6)]);
  assert.deepEqual([...batch.positions.slice(0, 7)], [5, 4, 5, 6, 7, 8, 9]);
  const completionPositions = [...batch.completionPositions!.slice(0, 7)];
  assert.deepEqual(completionPositions, [1, -7, -6, -5, -4, -3, -2]);
  assert.deepEqual([...batch.queryStarts.slice(0, 3)], [0, 1, 7]);
  assert.deepEqual([...batch.kvLengths.slice(0, 2)], [6, 10]);
  assert.equal(batch.maxBlocksPerSequence, 4);
  assert.deepEqual([...batch.blockTables.slice(0, 2)], [7, 3]);
  assert.deepEqual([...batch.blockTables.slice(4, 7)], [1, 0, 2]);
});

Deno.test("StepBuilder.build() uses the same arrays for every step, sized for the largest", () => {
  const limits = makeLimits({
    maxBatchTokens: 9,
    maxSequences: 3,
    contextLength: 64,
    numBlocks: 5,
  });
  const builder = new StepBuilder(limits);
  const sequence = makeSequence(countFrom(0, 9));
  const step = { scheduled: [{ sequence, numTokens: 9, samples: true }] };
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

Deno.test("StepBuilder.build() marks the tokens of a step that come from media, with their rows", () => {
  const source: EmbeddingSource = { rows: () => Promise.reject(new Error("not asked for")) };
  const sequence = makeSequence(countFrom(0, 12), {
    media: [
      { start: 1, end: 4, key: "a", source, firstRow: 0 },
      { start: 5, end: 9, key: "a", source, firstRow: 3 },
    ],
  });
  const builder = new StepBuilder(makeLimits());
  const getSpans = (numComputed: number, numTokens: number) => {
    sequence.numComputed = numComputed;
    const other = makeSequence([7]);
    const scheduled = [
      { sequence: other, numTokens: 1, samples: true },
      { sequence, numTokens, samples: false },
    ];
    const { embeddings } = builder.build({ scheduled });
    return embeddings?.map((span) => [span.firstToken, span.numTokens, span.firstRow]);
  };
  assert.deepEqual(getSpans(0, 12), [[2, 3, 0], [6, 4, 3]]);
  assert.deepEqual(getSpans(2, 5), [[1, 2, 1], [4, 2, 3]]);
  assert.deepEqual(getSpans(7, 5), [[1, 2, 5]]);
  assert.equal(getSpans(9, 3), undefined);
});

Deno.test("StepBuilder.build() returns positions in three sections if one of the sequences has them", () => {
  const scales = [[0, 1, 1, 3], [0, 1, 2, 3], [0, 2, 1, 3]].map((scale) => Int32Array.from(scale));
  const sequence = makeSequence(countFrom(0, 4), {
    sectionPositions: { prompt: scales as [Int32Array, Int32Array, Int32Array], offset: 5 },
  });
  sequence.push(9);
  sequence.numComputed = 1;
  const builder = new StepBuilder(makeLimits());
  const text = { sequence: makeSequence([7, 8]), numTokens: 2, samples: true };
  const batch = builder.build({
    scheduled: [text, { sequence, numTokens: 4, samples: true }],
  });
  assert.deepEqual(batch.sectionPositions!.map((section) => [...section.slice(0, 6)]), [
    [0, 1, 1, 1, 3, 9],
    [0, 1, 1, 2, 3, 9],
    [0, 1, 2, 1, 3, 9],
  ]);
  assert.equal(builder.build({ scheduled: [text] }).sectionPositions, undefined);
});
