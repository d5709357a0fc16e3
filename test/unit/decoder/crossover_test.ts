import assert from "node:assert/strict";
import { chooseWay, Crossover, firstTokens } from "../../../src/decoder/crossover.ts";

/** Finds the crossover of steps that take as long as the two say; the clock is the test's. */
async function find(
  { compiled, ort, most = 256, many }: Record<"compiled" | "ort", (rows: number) => number> & {
    readonly most?: number;
    readonly many?: number;
  },
) {
  const { now } = performance;
  const found = { limit: -1, measured: [] as number[], time: 0 };
  performance.now = () => found.time;
  try {
    const crossover = await Crossover.find({
      ...{ most, many },
      limit: (maxRows) => found.limit = maxRows,
      run: (rows) => {
        if (found.measured.at(-1) !== rows) found.measured.push(rows);
        found.time += rows <= found.limit ? compiled(rows) : ort(rows);
        return Promise.resolve();
      },
    });
    /** Serves some steps of as many rows, in the way that the limit says. */
    const serve = (rows: number, times = 3) => {
      for (let i = 0; i < times; i++) {
        const way = rows <= found.limit ? "compiled" : "ort";
        const ms = { compiled, ort }[way](rows);
        crossover.observe({ rows, way, ms });
      }
      assert.equal(found.limit, crossover.mostRows);
      return found.limit;
    };
    return { ...found, crossover, serve };
  } finally {
    performance.now = now;
  }
}

Deno.test("Crossover.find() measures 16 rows and takes as many as are as fast by proportion", async () => {
  const { limit, measured, time } = await find({ compiled: (rows) => rows, ort: () => 64 });
  assert.deepEqual(measured, [16]);
  assert.equal(limit, 64);
  // A round that compiles, and two.
  assert.equal(time, 3 * (16 + 64));
  assert.equal((await find({ compiled: (rows) => rows, ort: () => 1000 })).limit, 256);
});

Deno.test("Crossover.find() measures many rows where those are cheaper than by proportion", async () => {
  // From 33 rows on, 64 at a time cost as much as 16.
  const compiled = (rows: number) => rows < 33 ? rows : 16 * Math.ceil(rows / 64);
  const faster = await find({ compiled, ort: (rows) => 40 + rows / 8, many: 128 });
  assert.deepEqual([faster.measured, faster.limit], [[16, 128], 224]);
  const slower = await find({ compiled, ort: () => 20, many: 128 });
  assert.deepEqual([slower.measured, slower.limit], [[16, 128], 20]);
  const enough = await find({ compiled, ort: () => 1000, many: 128 });
  assert.deepEqual([enough.measured, enough.limit], [[16], 256]);
});

Deno.test("Crossover.find() takes another round where the two are close", async () => {
  const { limit, time } = await find({ compiled: (rows) => rows, ort: () => 20 });
  assert.equal(limit, 20);
  assert.equal(time, 4 * (16 + 20));
});

Deno.test("Crossover.find() tries smaller steps as long as ONNX Runtime is faster", async () => {
  const { limit, measured } = await find({ compiled: (rows) => rows * rows / 10, ort: () => 3 });
  assert.deepEqual([limit, measured], [4, [16, 8, 4]]);
  const never = await find({ compiled: () => 9, ort: () => 3 });
  assert.deepEqual([never.limit, never.measured], [0, [16, 8, 4, 1]]);
});

Deno.test("Crossover.find() tries no more rows than a step may have", async () => {
  const { measured, limit } = await find({ compiled: () => 9, ort: () => 30, most: 6 });
  assert.deepEqual([measured, limit], [[6], 6]);
});

Deno.test("Crossover.find() ends where it takes too long, with half of what it refuted", async () => {
  const { limit, measured } = await find({ compiled: () => 900, ort: () => 800 });
  assert.deepEqual([limit, measured], [7, [16]]);
});

Deno.test("Crossover.find() takes a first round that takes seconds for an answer", async () => {
  const slow = await find({ compiled: (rows) => 200 * rows, ort: () => 8000 });
  assert.equal(slow.time, 16 * 200 + 8000);
  assert.equal(slow.limit, 40);
  // The programs of ONNX Runtime may take that long to compile.
  assert.equal((await find({ compiled: () => 100, ort: () => 8000 })).time, 2 * 8100);
});

Deno.test("Crossover.observe() takes more rows where served steps of ONNX Runtime are slow", async () => {
  const { limit, serve } = await find({ compiled: (rows) => rows, ort: (rows) => 30 + rows });
  assert.equal(limit, 46);
  // 80 against 50 at most, by proportion: as fast at 80.
  assert.equal(serve(50, 2), 46, "the first ones may have compiled programs");
  assert.equal(serve(50, 1), 80);
  assert.equal(serve(200), 230);
});

Deno.test("Crossover.observe() gives up rows that a larger step of ONNX Runtime is faster than", async () => {
  const { limit, serve } = await find({
    compiled: (rows) => rows < 70 ? rows : 2 * rows,
    ort: (rows) => rows > 100 ? 90 : 100,
  });
  assert.equal(limit, 100);
  assert.equal(serve(80), 100);
  // 160 against 90.
  assert.equal(serve(120), 44);
  // What was slow stays so; what was fast at more rows than those left is not known.
  assert.equal(serve(200), 44);
  assert.equal(serve(44), 44);
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

/** Chooses between ways that take so many milliseconds for steps of eight rows and of one. */
async function chosenOf(ms: Readonly<Record<8 | 1, { compiled: number; ort: number }>>) {
  const sizes: number[] = [];
  let maxRows = 0;
  const { way } = await chooseWay({
    most: 8,
    limit: (rows) => maxRows = rows,
    run: async (rows) => {
      if (sizes.at(-1) !== rows) sizes.push(rows);
      const { compiled, ort } = ms[rows as 8 | 1];
      await new Promise((resolve) => setTimeout(resolve, maxRows > 0 ? compiled : ort));
    },
  });
  return { way, sizes };
}

Deno.test("chooseWay() takes compiled steps that are slower at no size, and measures no more once they are", async () => {
  const faster = { compiled: 5, ort: 100 };
  const slower = { compiled: 100, ort: 5 };
  assert.deepEqual(await chosenOf({ 8: faster, 1: faster }), { way: "compiled", sizes: [8, 1] });
  assert.deepEqual(await chosenOf({ 8: slower, 1: faster }), { way: "ort", sizes: [8] });
  assert.deepEqual(await chosenOf({ 8: faster, 1: slower }), { way: "ort", sizes: [8, 1] });
});

Deno.test("Crossover tells what was measured of two sizes below the same power of two", async () => {
  // Each way is best at another of the two.
  const { crossover } = await find({ compiled: (rows) => 40 + rows, ort: (rows) => rows, most: 7 });
  assert.deepEqual(crossover.measured, [
    { rows: 7, compiled: 47, ort: 7 },
    { rows: 4, compiled: 44, ort: 4 },
    { rows: 1, compiled: 41, ort: 1 },
  ]);
});
