import assert from "node:assert/strict";
import type { StepBatch } from "../../../src/decoder/decoder.ts";
import { divideStep, StepSlices } from "../../../src/decoder/step_division.ts";

const BLOCKS = 2;

/** A step of sequences with the given numbers of tokens; those of one token decode by default. */
function makeStep(
  counts: readonly number[],
  isDecoding = (count: number): boolean => count === 1,
): StepBatch {
  const queryStarts = Int32Array.of(0, ...counts);
  counts.forEach((count, s) => queryStarts[s + 1] = queryStarts[s]! + count);
  const numTokens = queryStarts.at(-1)!;
  const numbers = (from: number) => Int32Array.from({ length: numTokens }, (_, i) => from + i);
  const source = { rows: () => Promise.reject(new Error("It is not asked for.")) };
  return {
    sequences: counts.map((count, sequenceId) => ({ sequenceId, isDecoding: isDecoding(count) })),
    numTokens,
    tokenIds: numbers(100),
    positions: numbers(200),
    completionPositions: numbers(300),
    sectionPositions: [numbers(400), numbers(500), numbers(600)],
    // An embedding for the last token of each sequence.
    embeddings: counts.map((_, sequenceId) => ({
      ...{ sequenceId, numTokens: 1, firstRow: 0, source },
      firstToken: queryStarts[sequenceId + 1]! - 1,
    })),
    queryStarts,
    kvLengths: Int32Array.from(counts, (count) => 10 * count),
    blockTables: Int32Array.from({ length: BLOCKS * counts.length }, (_, i) => i),
    maxBlocksPerSequence: BLOCKS,
  };
}

Deno.test("divideStep() does not divide a step of one kind", () => {
  const decoding = makeStep([1, 1, 1]);
  assert.deepEqual(divideStep(decoding, { maxFewRows: 3 }), [{ lowering: "few", batch: decoding }]);
  const prompts = makeStep([4, 1], () => false);
  assert.deepEqual(divideStep(prompts, { maxFewRows: Infinity }), [{
    lowering: "many",
    batch: prompts,
  }]);
});

Deno.test("divideStep() computes decoding sequences with the prompts if there are too many", () => {
  const step = makeStep([1, 1, 1, 5]);
  assert.deepEqual(divideStep(step, { maxFewRows: 2 }), [{ lowering: "many", batch: step }]);
  assert.equal(divideStep(step, { maxFewRows: 3 }).length, 2);
});

Deno.test("divideStep() does not divide a mixed step if both parts are computed the same way", () => {
  const rule = { maxFewRows: Infinity, isExact: true };
  const mixed = makeStep([1, 1, 5]);
  assert.deepEqual(divideStep(mixed, rule), [{ lowering: "many", batch: mixed }]);
  const decoding = makeStep([1, 1]);
  assert.deepEqual(divideStep(decoding, rule), [{ lowering: "few", batch: decoding }]);
});

Deno.test("divideStep() gives each sequence a part if rows depend on other rows", () => {
  const rule = { maxFewRows: 4, isApart: true };
  const parts = divideStep(makeStep([1, 1, 5]), rule);
  assert.deepEqual(parts.map(({ lowering }) => lowering), ["few", "few", "many"]);
  assert.deepEqual(parts.map(({ batch }) => batch.numTokens), [1, 1, 5]);
  assert.deepEqual(parts.map(({ batch }) => batch.tokenIds[0]), [100, 101, 102]);
  const alone = makeStep([5]);
  assert.deepEqual(divideStep(alone, rule), [{ lowering: "many", batch: alone }]);
});

Deno.test("divideStep() gives each part the tokens of its own sequences", () => {
  const [few, many, ...more] = divideStep(makeStep([1, 1, 3, 2]), { maxFewRows: Infinity });
  assert.deepEqual(more, []);
  assert.deepEqual([few!.lowering, many!.lowering], ["few", "many"]);
  const { batch } = many!;
  assert.deepEqual(batch.sequences.map(({ sequenceId }) => sequenceId), [2, 3]);
  assert.equal(batch.numTokens, 5);
  assert.deepEqual([...batch.tokenIds], [102, 103, 104, 105, 106]);
  assert.deepEqual([...batch.positions], [202, 203, 204, 205, 206]);
  assert.deepEqual([...batch.completionPositions!], [302, 303, 304, 305, 306]);
  assert.deepEqual(batch.sectionPositions!.map(([first]) => first), [402, 502, 602]);
  assert.deepEqual(batch.embeddings!.map(({ firstToken }) => firstToken), [2, 4]);
  assert.deepEqual([...batch.queryStarts], [0, 3, 5]);
  assert.deepEqual([...batch.kvLengths], [30, 20]);
  assert.deepEqual([...batch.blockTables], [4, 5, 6, 7]);
  assert.deepEqual(few!.batch.embeddings!.map(({ firstToken }) => firstToken), [0, 1]);
});

Deno.test("divideStep() keeps the order of sequences if a prompt comes between two decoding sequences", () => {
  const parts = divideStep(makeStep([1, 3, 1]), { maxFewRows: Infinity });
  assert.deepEqual(
    parts.map(({ lowering, batch }) => [lowering, batch.sequences[0]!.sequenceId]),
    [["few", 0], ["many", 1], ["few", 2]],
  );
});

/** Divides work whose unit takes a millisecond, if that is known. @returns the first slice, and counts. */
async function slice(
  work: { length: number; least: number; most?: number; weight?: number; numInner?: number },
  { remainingMs, isKnown = true }: { remainingMs: number; isKnown?: boolean },
) {
  const key = {};
  const slices: number[][] = [];
  const counts = { pauses: 0, resumes: 0 };
  const endPart = () => {
    counts.pauses++;
    return Promise.resolve();
  };
  const onResume = () => counts.resumes++;
  const times = new WeakMap<object, number>(isKnown ? [[key, 1]] : []);
  const options = { suspension: { remainingMs, endPart }, times, divides: true, onResume };
  await new StepSlices(options).divide({ key, ...work }, (first, end) => {
    slices.push([first, end]);
  });
  assert.equal(counts.resumes, counts.pauses);
  return { first: slices[0], end: slices.at(-1)![1], numSlices: slices.length, ...counts };
}

Deno.test("StepSlices.divide() runs as much as fits before the suspension, in multiples of the least part", async () => {
  const work = { length: 40, least: 4 };
  const { first, end } = await slice(work, { remainingMs: 11 });
  assert.deepEqual([first, end], [[0, 8], 40]);
  const ofWork = async (changes: Partial<typeof work> & Record<string, number>, ms: number) =>
    (await slice({ ...work, ...changes }, { remainingMs: ms })).first;
  assert.deepEqual(await ofWork({}, 0), [0, 4], "at least one part");
  assert.deepEqual(await ofWork({ most: 6 }, 11), [0, 6]);
  assert.deepEqual(await ofWork({ weight: 2 }, 16), [0, 8]);
  assert.deepEqual(await ofWork({ numInner: 2 }, 4), [0, 8]);
  assert.deepEqual(await ofWork({ length: 11 }, 8), [0, 11], "no remainder below the least part");
  assert.deepEqual(await ofWork({ length: 12 }, 8), [0, 8], "a remainder of the least part");
  const unknown = await slice(work, { remainingMs: 11, isKnown: false });
  assert.deepEqual(unknown.first, [0, 4], "work that was never timed");
});

Deno.test("StepSlices.divide() pauses between parts only", async () => {
  const whole = await slice({ length: 40, least: 4 }, { remainingMs: Infinity });
  assert.deepEqual([whole.first, whole.pauses], [[0, 40], 0]);
  const { numSlices, pauses } = await slice({ length: 40, least: 4 }, { remainingMs: 0 });
  assert.equal(pauses, numSlices - 1);
});
