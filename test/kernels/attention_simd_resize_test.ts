import assert from "node:assert/strict";
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import { SimdAttention, type SimdLimits } from "../../kernels/attention/attention_simd.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import { makeLayer } from "./attention_simd_case.ts";
import { makeNormal } from "./exact_sampling.ts";

const SHAPE: AttentionShape = { heads: 4, kvHeads: 2, headSize: 32, blockSize: 16, elem: "f32" };
const LAYERS = [64, 32, 32].map((headSize) => makeLayer({ ...SHAPE, headSize }));
const LIMITS: SimdLimits = {
  numBlocks: 4,
  maxTokens: 64,
  maxSequences: 1,
  maxBlocksPerSequence: 8,
};

/** Makes a step of tokens `start` to `end` of the only sequence. */
function makeStep(blocks: readonly number[], start: number, end: number): PackedStep {
  return {
    sequences: { length: 1 },
    numTokens: end - start,
    positions: Int32Array.from({ length: end - start }, (_, i) => start + i),
    queryStarts: Int32Array.of(0, end - start),
    kvLengths: Int32Array.of(end),
    blockTables: Int32Array.from({ length: 8 }, (_, i) => blocks[i] ?? 0),
    maxBlocksPerSequence: 8,
  };
}

/** Runs a step with random operands. @returns the outputs of all layers. */
function getOutputs(attention: SimdAttention, step: PackedStep): Float32Array[] {
  attention.begin(step);
  return LAYERS.map((_, layer) => {
    const { q } = attention.inputs(layer);
    const normal = makeNormal(layer + 1);
    for (let i = 0; i < q.length; i++) q[i] = normal();
    return attention.run(layer).slice();
  });
}

function assertEqualOutputs(got: readonly Float32Array[], want: readonly Float32Array[]): void {
  want.forEach((layer, i) => assertSameValues(got[i]!, layer, `layer ${i}`));
}

Deno.test("SimdAttention.resize() keeps the content of the remaining blocks when the pool grows and shrinks", () => {
  const threads = new KernelThreads(2, { minFlops: 0 });
  const fixed = new SimdAttention(LAYERS, { ...LIMITS, numBlocks: 2048 });
  const resized = new SimdAttention(LAYERS, { ...LIMITS, maxBlocks: 2048, threads });
  const run = (step: PackedStep) =>
    assertEqualOutputs(getOutputs(resized, step), getOutputs(fixed, step));
  run(makeStep([2, 0, 3], 0, 40));
  // Grows the memory beyond its first pages.
  assert(resized.resize(2048));
  run(makeStep([2, 0, 3, 2047, 1000], 40, 70));
  run(makeStep([2, 0, 3, 2047, 1000], 70, 71));
  assert(resized.resize(4));
  run(makeStep([2, 0, 3], 40, 41));
  assert(resized.resize(64));
  run(makeStep([2, 0, 3, 63], 41, 60));
  threads.dispose();
});

Deno.test("SimdAttention divides layers among several memories if one cannot hold the largest cache", () => {
  // At 32 KiB per block: 1.5 GiB and 4.9 GiB. A memory holds at most 4 GiB.
  const one = new SimdAttention(LAYERS, { ...LIMITS, maxBlocks: 50_000 });
  const several = new SimdAttention(LAYERS, { ...LIMITS, maxBlocks: 160_000 });
  assert.deepEqual([one.numMemories, several.numMemories], [1, 2]);
  for (const [start, end] of [[0, 40], [40, 41]] as const) {
    const step = makeStep([3, 1, 2], start, end);
    assertEqualOutputs(getOutputs(several, step), getOutputs(one, step));
  }
  const [keys, values] = [new Float32Array(40 * 32), new Float32Array(40 * 32)];
  const read = { head: 1, blocks: Int32Array.of(3, 1, 2), numKeys: 40 };
  several.readCache(2, { ...read, keys, values });
  const wanted = { keys: keys.slice(), values: values.slice() };
  one.readCache(2, { ...read, keys, values });
  assertSameValues(keys, wanted.keys, "keys");
  assertSameValues(values, wanted.values, "values");
  assert(values.some((value) => value !== 0));
});

Deno.test("SimdAttention.resize() returns false for more blocks than a memory can hold, and changes nothing", () => {
  const attention = new SimdAttention(LAYERS, { ...LIMITS, maxBlocks: 1000 });
  const before = getOutputs(attention, makeStep([2, 0], 0, 20));
  assert.equal(attention.resize(2 ** 18), false);
  assertEqualOutputs(getOutputs(attention, makeStep([2, 0], 0, 20)), before);
});
