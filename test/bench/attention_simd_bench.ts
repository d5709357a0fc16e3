/**
 * The CPU backend's attention beside its reference, one layer, `kv_write` included.
 *
 *     deno task bench attention_simd
 *
 * @module
 */
import type { PackedStep } from "../../kernels/step_plan.ts";
import { SimdAttention, type SimdLayer } from "../../kernels/attention_simd.ts";
import { ReferenceKvWrite } from "../../kernels/kv_write_reference.ts";
import { ReferenceAttention } from "../../kernels/paged_attention_reference.ts";
import { makeLayer } from "../kernels/attention_simd_case.ts";
import { makeStep } from "../kernels/paged_case.ts";
import { median, printTable } from "./report.ts";

const BLOCK_SIZE = 16;
const ROUNDS = 9;
const ROUND_MS = 20;
/** Heads, KV heads and head size. */
const SHAPES = [[8, 4, 16], [6, 2, 32], [14, 2, 64], [16, 8, 128], [8, 8, 64]] as const;
/** Sequences, queries and keys of each. */
const STEPS = [[1, 1, 100], [1, 1, 1500], [8, 1, 100], [1, 512, 512]] as const;

/** Median milliseconds of a call. */
function timeCall(call: () => void): number {
  const startedAt = performance.now();
  let calls = 0;
  for (; performance.now() - startedAt < 3 * ROUND_MS; calls++) call();
  const perRound = Math.ceil(calls / 3);
  return median(Array.from({ length: ROUNDS }, () => {
    const roundAt = performance.now();
    for (let i = 0; i < perRound; i++) call();
    return (performance.now() - roundAt) / perRound;
  }));
}

function simd(layer: SimdLayer, step: PackedStep, numBlocks: number): () => void {
  const { numTokens: maxTokens, sequences } = step;
  const attention = new SimdAttention([layer], {
    maxTokens,
    numBlocks,
    maxSequences: sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
  });
  attention.inputs(0).q.fill(0.1);
  attention.begin(step);
  return () => void attention.run(0);
}

function reference(layer: SimdLayer, step: PackedStep, numBlocks: number): () => void {
  const { shape, write, attend } = layer;
  const kCache = new Float32Array(numBlocks * shape.kvHeads * BLOCK_SIZE * shape.headSize);
  const vCache = kCache.slice();
  const q = new Float32Array(step.numTokens * write.q.stride).fill(0.1);
  const out = new Float32Array(step.numTokens * shape.heads * shape.headSize);
  const kvWrite = new ReferenceKvWrite(shape, write);
  const attention = new ReferenceAttention(shape, {
    ...attend,
    hasSinks: false,
    queryStride: write.q.stride,
    queryOffset: 0,
  }, step.maxBlocksPerSequence * BLOCK_SIZE);
  return () => {
    kvWrite.run(step, { q, k: q, v: q, kCache, vCache });
    attention.run(step, { q, kCache, vCache, out });
  };
}

const rows = SHAPES.flatMap(([heads, kvHeads, headSize]) =>
  STEPS.map(([numSequences, queries, keys]) => {
    const layer = makeLayer({ heads, kvHeads, headSize, blockSize: BLOCK_SIZE, elem: "f32" });
    const sequences = Array.from({ length: numSequences }, () => ({ queries, keys }));
    const { step, numBlocks } = makeStep(sequences, BLOCK_SIZE);
    const fast = timeCall(simd(layer, step, numBlocks));
    const slow = timeCall(reference(layer, step, numBlocks));
    const numPairs = numSequences * queries * (keys - (queries - 1) / 2);
    const gigaflops = (ms: number) => (numPairs * heads * headSize * 4 / ms / 1e6).toFixed(1);
    return [
      `${heads} heads on ${kvHeads} of ${headSize}`,
      `${numSequences} × ${queries} queries, ${keys} keys`,
      `${(fast * 1000).toFixed(1)} µs`,
      `${gigaflops(fast)} GFLOP/s`,
      `${gigaflops(slow)} GFLOP/s`,
      `${(slow / fast).toFixed(1)}×`,
    ];
  })
);
printTable(["layer", "step", "SIMD", "SIMD", "reference", "speed-up"], rows);
