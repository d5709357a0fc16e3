import assert from "node:assert/strict";
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import { SimdAttention } from "../../kernels/attention/attention_simd.ts";
import binary from "../../kernels/cpu/attention_simd.wasm.base64" with { type: "text" };
import { compileWasm, WASM_MODULES } from "../../scripts/wasm.ts";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { StartupError } from "../../src/base/errors.ts";
import { Contenders, makeLayer, type SimdOptions } from "./attention_simd_case.ts";
import { makeNormal } from "./exact_sampling.ts";
import { type CaseSequence, makeStep } from "./paged_case.ts";
import { assertClose, assertSameValues } from "../fixtures/engine/compare_values.ts";

const SHAPE: AttentionShape = { heads: 4, kvHeads: 2, headSize: 32, blockSize: 16, elem: "f32" };
const TOLERANCE = { abs: 1e-5, rel: 1e-5 };
/** An element halfway between two multiples of 1/127 may be rounded either way. */
const ROUNDED_TOLERANCE = { abs: 1e-3, rel: 1e-3 };
/** A float32 preserves only three decimals of logits in the thousands. */
const OUTLIERS_TOLERANCE = { abs: 1e-4, rel: 1e-3 };

const decodes = (...lengths: number[]) => lengths.map((keys) => ({ queries: 1, keys }));
/** A step with decodes at block edges, a prompt, and chunks that continue a prompt. */
const MIXED = [
  ...decodes(1, 15, 16, 17, 100),
  { queries: 40, keys: 40 },
  { queries: 2, keys: 33 },
  { queries: 21, keys: 70 },
];

/** Makes the step that writes the keys which precede those of `step`. */
function makeHistory(step: PackedStep): PackedStep {
  const queryStarts = new Int32Array(step.queryStarts.length);
  const positions: number[] = [];
  const kvLengths = step.kvLengths.map((length, s) => {
    const numOld = length - (step.queryStarts[s + 1]! - step.queryStarts[s]!);
    for (let i = 0; i < numOld; i++) positions.push(i);
    queryStarts[s + 1] = positions.length;
    return numOld;
  });
  const numTokens = positions.length;
  return { ...step, numTokens, positions: Int32Array.from(positions), queryStarts, kvLengths };
}

/** Makes a step that writes every slot of the pool: each block belongs to another sequence. */
function everySlot(numBlocks: number, blockSize: number): PackedStep {
  const numTokens = numBlocks * blockSize;
  return {
    sequences: { length: numBlocks },
    numTokens,
    positions: Int32Array.from({ length: numTokens }, (_, i) => i % blockSize),
    queryStarts: Int32Array.from({ length: numBlocks + 1 }, (_, s) => s * blockSize),
    kvLengths: new Int32Array(numBlocks).fill(blockSize),
    blockTables: Int32Array.from({ length: numBlocks }, (_, block) => block),
    maxBlocksPerSequence: 1,
  };
}

/** Poisons the cache with NaN, writes the keys that come before the step's, and compares the step's outputs. */
function simdTest(
  name: string,
  shape: AttentionShape,
  sequences: readonly CaseSequence[],
  options: SimdOptions = {},
): void {
  Deno.test(`SimdAttention.run() equals its reference: ${name}`, () => {
    const { step, numBlocks } = makeStep(sequences, shape.blockSize);
    const poison = everySlot(numBlocks, shape.blockSize);
    const { maxBlocksPerSequence } = step;
    const layer = makeLayer(shape, options, maxBlocksPerSequence * shape.blockSize);
    const contenders = new Contenders(layer, {
      numBlocks,
      maxTokens: poison.numTokens,
      maxSequences: numBlocks,
      maxBlocksPerSequence,
    });
    contenders.write(poison, () => NaN);
    const normal = makeNormal(3);
    const next = () => {
      const value = normal();
      return options.hasOutliers && value > 2.5 ? value * 100 : value;
    };
    contenders.write(makeHistory(step), next);
    const { got, want } = contenders.run(step, next);
    const tolerance = shape.isQuantized ? ROUNDED_TOLERANCE : TOLERANCE;
    assertClose(got, want, options.hasOutliers ? OUTLIERS_TOLERANCE : tolerance);
  });
}

for (const headSize of [8, 12, 16, 32, 64, 80, 96, 128, 256]) {
  simdTest(`heads of ${headSize}`, { ...SHAPE, headSize }, MIXED);
}
for (const group of [1, 3, 7, 8, 12]) {
  const shape = { ...SHAPE, heads: group * 2 };
  simdTest(`groups of ${group} heads`, shape, [...decodes(1, 33, 200), MIXED[5]!, MIXED[7]!]);
}
simdTest("contexts of up to 4,096 keys", SHAPE, [
  ...decodes(2, 1000, 4096),
  { queries: 30, keys: 1500 },
]);
simdTest("blocks of 64 tokens", { ...SHAPE, blockSize: 64 }, MIXED);
simdTest("logits much larger than all others", SHAPE, MIXED, { hasOutliers: true });
for (const window of [1, 7, 16, 32]) {
  simdTest(`a window of ${window}`, SHAPE, [...MIXED, ...decodes(300)], { window });
  simdTest(`a window of ${window}, one head`, { ...SHAPE, heads: 1, kvHeads: 1 }, MIXED, {
    window,
  });
}
simdTest("a soft cap", SHAPE, MIXED, { softcap: 1.5 });
simdTest("a soft cap and outliers", SHAPE, MIXED, { softcap: 30, hasOutliers: true });
simdTest("sinks", SHAPE, MIXED, { hasSinks: true });
simdTest("slopes", SHAPE, [...MIXED, ...decodes(1000)], { hasSlopes: true });
simdTest("8 bits and slopes", { ...SHAPE, isQuantized: true }, MIXED, { hasSlopes: true });
simdTest("everything at once, with queries, keys and values in separate tensors", SHAPE, MIXED, {
  isSplit: true,
  rotary: { size: 32, isInterleaved: false },
  window: 20,
  softcap: 5,
  hasSinks: true,
  hasSlopes: true,
});
const ROTARIES = [
  ...[[32, false], [24, false], [20, false], [6, false]] as const,
  ...[[32, true], [12, true], [14, true]] as const,
];
for (const [size, isInterleaved] of ROTARIES) {
  const how = isInterleaved ? "neighbours" : "halves";
  simdTest(`rotated ${how} of ${size} elements`, SHAPE, MIXED, { rotary: { size, isInterleaved } });
}

for (const headSize of [8, 12, 32, 80, 128]) {
  simdTest(`heads of ${headSize} in 8 bits`, { ...SHAPE, headSize, isQuantized: true }, MIXED);
}
for (const group of [1, 3, 7]) {
  const shape = { ...SHAPE, heads: group * 2, isQuantized: true };
  simdTest(`8 bits, groups of ${group} heads`, shape, [...decodes(1, 33, 200), MIXED[7]!]);
}
for (const window of [1, 20]) {
  simdTest(`8 bits, a window of ${window}`, { ...SHAPE, isQuantized: true }, MIXED, { window });
}
simdTest("8 bits, a soft cap and sinks", { ...SHAPE, isQuantized: true }, MIXED, {
  softcap: 5,
  hasSinks: true,
});
simdTest("8 bits, rotated, over many keys", { ...SHAPE, isQuantized: true }, [
  ...decodes(2, 4096),
  { queries: 30, keys: 1500 },
], { rotary: { size: 32, isInterleaved: false }, isSplit: true });

Deno.test("SimdAttention gives layers that share inputs the same results as separate layers", () => {
  const { step, numBlocks } = makeStep(MIXED, 16);
  const limits = { ...step, numBlocks, maxTokens: 300, maxSequences: MIXED.length };
  const layers = [64, 32].map((headSize) => makeLayer({ ...SHAPE, headSize }));
  const getOutputs = (attention: SimdAttention, layer: number, seed: number) => {
    attention.inputs(layer).q.set(attention.inputs(layer).q.map(makeNormal(seed)));
    return attention.run(layer);
  };
  const together = new SimdAttention(layers, limits);
  const apart = layers.map((layer) => new SimdAttention([layer], limits));
  for (const one of [makeHistory(step), step]) {
    together.begin(one);
    const got = layers.map((_, i) => getOutputs(together, i, i));
    const want = apart.map((attention, i) => {
      attention.begin(one);
      return getOutputs(attention, 0, i);
    });
    want.forEach((layer, i) => assertSameValues(got[i]!, layer, `layer ${i}`));
  }
});

const ONE = { numBlocks: 1, maxTokens: 1, maxSequences: 1, maxBlocksPerSequence: 1 };

Deno.test("SimdAttention refuses shapes that the kernels cannot run", () => {
  const sizes = [{ headSize: 4 }, { headSize: 10 }, { headSize: 260 }];
  for (const wrong of [...sizes, { blockSize: 8 }, { blockSize: 48 }]) {
    const layer = makeLayer({ ...SHAPE, ...wrong });
    assert.throws(() => new SimdAttention([layer], ONE), RangeError);
  }
  const layer = makeLayer(SHAPE, { rotary: { size: 11, isInterleaved: false } });
  assert.throws(() => new SimdAttention([layer], ONE), RangeError);
});

Deno.test("SimdAttention names the memory it needs, and the setting, if that exceeds 4 GiB", () => {
  const layer = makeLayer({ ...SHAPE, headSize: 256 });
  assert.throws(
    () => new SimdAttention([layer], { ...ONE, numBlocks: 2 ** 18 }),
    (error) =>
      error instanceof StartupError && error.setting === "kvCacheMb" &&
      /16\d{3} MiB.*4096/.test(error.message),
  );
});

Deno.test("attention_simd.wasm.base64 equals its compiled sources", async () => {
  assert.equal((await compileWasm(WASM_MODULES.attention)).toBase64(), binary);
});
