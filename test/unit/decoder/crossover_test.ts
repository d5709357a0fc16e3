import assert from "node:assert/strict";
import { findCrossover } from "../../../src/decoder/crossover.ts";

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

Deno.test("findCrossover() tries the largest step first, and leaves it at that where it is faster", async () => {
  const { mostRows, limit, steps } = await find({ compiled: (rows) => rows, ort: () => 20 });
  assert.deepEqual([mostRows, limit], [16, Infinity]);
  assert.deepEqual(steps, [{ rows: 16, compiled: "16.0", ort: "20.0" }]);
});

Deno.test("findCrossover() tries smaller steps as long as ONNX Runtime is faster", async () => {
  const { mostRows, limit } = await find({ compiled: (rows) => rows * rows, ort: () => 30 });
  assert.deepEqual([mostRows, limit], [4, 4]);
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
