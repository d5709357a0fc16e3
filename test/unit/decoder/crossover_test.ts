import assert from "node:assert/strict";
import { findCrossover, firstTokens } from "../../../src/decoder/crossover.ts";

/** Finds the crossover of steps that take as long as the two say; the clock is the test's. */
async function find(
  { compiled, ort, most = 16 }: Record<"compiled" | "ort", (rows: number) => number> & {
    readonly most?: number;
  },
) {
  const { now } = performance;
  let time = 0;
  let limit = -1;
  performance.now = () => time;
  try {
    const found = await findCrossover({
      most,
      limit: (maxRows) => limit = maxRows,
      run: (rows) => {
        time += rows <= limit ? compiled(rows) : ort(rows);
        return Promise.resolve();
      },
    });
    return { ...found, limit };
  } finally {
    performance.now = now;
  }
}

Deno.test("findCrossover() tries larger steps as far as they are as fast by proportion", async () => {
  const { mostRows, limit, steps } = await find({
    compiled: (rows) => rows,
    ort: (rows) => 40 + rows / 2,
    most: 256,
  });
  // 48 against 16 at 16 rows; 48 against 64, and not so much more.
  assert.deepEqual(steps.map(({ rows }) => rows), [16, 48]);
  assert.deepEqual(steps[0], { rows: 16, compiled: "16.0", ort: "48.0" });
  assert.deepEqual([mostRows, limit], [64, 64]);
  const always = await find({ compiled: (rows) => rows, ort: () => 1000, most: 256 });
  assert.deepEqual(always.steps.map(({ rows }) => rows), [16]);
  assert.equal(always.mostRows, 1000);
});

Deno.test("findCrossover() keeps the proportion where a larger step does not show it", async () => {
  const { mostRows, steps } = await find({
    compiled: (rows) => rows > 16 ? 100 : 10,
    ort: () => 50,
    most: 64,
  });
  assert.deepEqual(steps.map(({ rows }) => rows), [16, 64]);
  assert.equal(mostRows, 80);
});

Deno.test("findCrossover() tries smaller steps as long as ONNX Runtime is faster", async () => {
  const { mostRows, limit } = await find({ compiled: (rows) => rows * rows, ort: () => 30 });
  assert.deepEqual([mostRows, limit], [7, 7]);
  const never = await find({ compiled: () => 9, ort: () => 3 });
  assert.deepEqual([never.mostRows, never.limit], [0, 0]);
  assert.deepEqual(never.steps.map(({ rows }) => rows), [16, 8, 4, 1]);
});

Deno.test("findCrossover() tries no more rows than a step may have", async () => {
  const { steps } = await find({ compiled: () => 9, ort: () => 3, most: 6 });
  assert.deepEqual(steps.map(({ rows }) => rows), [6, 4, 1]);
});

Deno.test("findCrossover() ends where it takes too long, with what it has not refuted", async () => {
  const { mostRows, steps } = await find({ compiled: () => 900, ort: () => 800 });
  assert.deepEqual(steps.map(({ rows }) => rows), [16]);
  assert.equal(mostRows, 8);
});

Deno.test("firstTokens() divides tokens among sequences, each with blocks of its own", () => {
  const { sequences, positions, queryStarts, kvLengths, blockTables, maxBlocksPerSequence } =
    firstTokens(11, { maxSequences: 3, blockSize: 2 });
  assert.equal(sequences.length, 3);
  assert.deepEqual([...queryStarts], [0, 3, 7, 11]);
  assert.deepEqual([...kvLengths], [3, 4, 4]);
  assert.deepEqual([...positions], [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3]);
  assert.deepEqual([maxBlocksPerSequence, ...blockTables], [2, 0, 1, 2, 3, 4, 5]);
});
