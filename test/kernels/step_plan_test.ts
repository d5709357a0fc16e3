import assert from "node:assert/strict";
import type { AttentionShape, AttentionTiling } from "../../kernels/attention/attention_shape.ts";
import { type PackedStep, StepPlan } from "../../kernels/attention/step_plan.ts";
import { makeNormal } from "./exact_sampling.ts";
import { type CaseSequence, makeStep } from "./paged_case.ts";

const SHAPE: AttentionShape = { heads: 6, kvHeads: 2, headSize: 64, blockSize: 16, elem: "f32" };
const TILING: AttentionTiling = {
  decode: { rows: 3, threads: 128, threadsPerKey: 2, keysPerThread: 2, threadsPerValue: 16 },
  tile: { rows: 32, quads: 1, threadsPerRow: 8, keysPerThread: 4, isUnpacked: false },
  maxDecodedRows: 6,
  targetWorkgroups: 64,
  minSplitKeys: 128,
};
const GROUP = 3;
const NO_SLOT = 0xffffffff;

interface Item {
  readonly firstToken: number;
  readonly firstPosition: number;
  readonly rowStart: number;
  readonly numRows: number;
  readonly start: number;
  readonly end: number;
  readonly table: number;
  readonly slot: number;
}

/** Reads the items of one kind as the kernels do. */
function readItems(plan: StepPlan, kind: "prefill" | "decode" | "reduce"): Item[] {
  const header = { prefill: 2, decode: 3, reduce: 4 }[kind];
  const counts = {
    prefill: plan.numPrefillItems,
    decode: plan.numDecodeItems,
    reduce: plan.numReduceItems,
  };
  const words = plan.words.subarray(5, plan.length);
  return Array.from({ length: counts[kind] }, (_, i) => {
    const at = plan.words[header]! + i * 8;
    const [firstToken, firstPosition, rowStart, numRows, start, end, table, slot] = words
      .subarray(at, at + 8);
    return { firstToken, firstPosition, rowStart, numRows, start, end, table, slot } as Item;
  });
}

function planFor(sequences: readonly CaseSequence[], tiling = TILING, window = 0) {
  const { step } = makeStep(sequences, SHAPE.blockSize);
  const plan = new StepPlan(SHAPE, tiling, {
    maxTokens: step.numTokens,
    maxSequences: sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
    window,
  });
  plan.build(step);
  return { step, plan };
}

/**
 * Asserts that each row is written once, and that it uses each of its keys once. Decoding rows use only the keys in
 * the window.
 */
function assertComplete(step: PackedStep, plan: StepPlan, window = 0): void {
  const writers = new Map<string, number>();
  const mark = (item: Item) => {
    for (let row = item.rowStart; row < item.rowStart + item.numRows; row++) {
      const key = `${item.firstToken}:${row}`;
      writers.set(key, (writers.get(key) ?? 0) + 1);
    }
  };
  const decodes = readItems(plan, "decode");
  const getKeys = (item: Item) => {
    const s = step.queryStarts.subarray(0, step.sequences.length).lastIndexOf(item.firstToken);
    assert.equal(item.firstPosition, step.positions[item.firstToken]);
    return step.kvLengths[s]!;
  };
  const getFirst = ({ firstPosition }: Item) =>
    window === 0 ? 0 : Math.max(0, firstPosition - window + 1);
  for (const item of readItems(plan, "prefill")) {
    assert.deepEqual([item.start, item.end], [0, getKeys(item)]);
    mark(item);
  }
  for (const item of decodes.filter(({ slot }) => slot === NO_SLOT)) {
    assert.deepEqual([item.start, item.end], [getFirst(item), getKeys(item)]);
    mark(item);
  }
  const split = decodes.filter(({ slot }) => slot !== NO_SLOT);
  // Slots are assigned in order, so that those of a reduction are adjacent.
  assert.deepEqual(split.map(({ slot }) => slot), [...split.keys()]);
  assert.ok(split.length <= plan.maxSlots, `${split.length} slots of ${plan.maxSlots}`);
  let joined = 0;
  for (const item of readItems(plan, "reduce")) {
    mark(item);
    assert.equal(item.start, joined);
    joined = item.end;
    let key = getFirst(item);
    for (const part of split.slice(item.start, item.end)) {
      assert.deepEqual(
        [part.firstToken, part.rowStart, part.numRows, part.start],
        [item.firstToken, item.rowStart, item.numRows, key],
      );
      key = part.end;
    }
    assert.equal(key, getKeys(item));
  }
  assert.equal(joined, split.length);
  assert.equal(writers.size, step.numTokens * GROUP);
  assert.deepEqual([...new Set(writers.values())], step.numTokens > 0 ? [1] : []);
}

Deno.test("StepPlan.build() gives every row each of its keys once, over hundreds of random steps", () => {
  const normal = makeNormal(11);
  const pick = (limit: number) => 1 + Math.floor(Math.abs(normal()) * 1e6) % limit;
  const tilings = [TILING, { ...TILING, tile: undefined }, { ...TILING, targetWorkgroups: 2 }];
  for (let round = 0; round < 300; round++) {
    const sequences = Array.from({ length: pick(12) }, () => {
      const queries = pick(3) > 1 ? 1 : pick(100);
      return { queries, keys: queries + (pick(2) > 1 ? pick(2000) : 0) };
    });
    const window = pick(2) > 1 ? 0 : pick(1000);
    const { step, plan } = planFor(sequences, tilings[round % tilings.length], window);
    assertComplete(step, plan, window);
    assert.ok(plan.length <= plan.words.length);
  }
});

Deno.test("StepPlan.build() writes the slot of every token and the blocks of every sequence", () => {
  const { step, plan } = planFor([{ queries: 3, keys: 18 }, { queries: 1, keys: 33 }]);
  const words = plan.words.subarray(5);
  const slots = [...words.subarray(plan.words[1], plan.words[1]! + 4)];
  const slotAt = (s: number, position: number) =>
    step.blockTables[s * step.maxBlocksPerSequence + (position >> 4)]! * 16 + position % 16;
  assert.deepEqual(slots, [slotAt(0, 15), slotAt(0, 16), slotAt(0, 17), slotAt(1, 32)]);
  const last = readItems(plan, "decode").at(-1)!;
  const table = [...words.subarray(last.table, last.table + 3)];
  const row = step.maxBlocksPerSequence;
  assert.deepEqual(table, [...step.blockTables.subarray(row, row + 3)]);
});

Deno.test("StepPlan.build() splits a long decode the same way alone and among others", () => {
  const getParts = (plan: StepPlan) =>
    readItems(plan, "decode").filter(({ firstPosition }) => firstPosition === 4095)
      .map(({ start, end }) => [start, end]);
  const long = { queries: 1, keys: 4096 };
  const alone = getParts(planFor([long]).plan);
  assert.ok(alone.length > 8);
  const others = Array.from({ length: 40 }, (_, i) => ({ queries: 1, keys: 1 + 90 * i }));
  const { plan } = planFor([...others, long, { queries: 90, keys: 2000 }]);
  assert.deepEqual(getParts(plan), alone);
  // A short decode is not split.
  assert.ok(readItems(plan, "decode").some(({ end, slot }) => end === 91 && slot === NO_SLOT));
});

Deno.test("StepPlan.build() orders a prompt's items from its last rows to its first", () => {
  const { plan } = planFor([{ queries: 100, keys: 100 }]);
  const starts = readItems(plan, "prefill").map(({ rowStart }) => rowStart);
  assert.deepEqual(starts, starts.toSorted((a, b) => b - a));
  assert.equal(plan.numDecodeItems, 0);
});
