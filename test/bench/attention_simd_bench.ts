/**
 * Measures one layer of the CPU backend's attention: on one thread, on one thread per core, and in ONNX Runtime, whose
 * native build runs the attention of prompts. For decoding, the figure is the rate at which keys and values are read.
 *
 *     deno task bench attention_simd
 *
 * @module
 */
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { SimdAttention, type SimdLayer } from "../../kernels/attention/attention_simd.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import { countCores } from "../../src/device/cpu/runtime.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { PromptAttention } from "../../src/device/cpu/prompt_attention.ts";
import { makeLayer } from "../kernels/attention_simd_case.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";
import { makeStep } from "../kernels/paged_case.ts";
import { median, printTable } from "./report.ts";

const BLOCK_SIZE = 16;
const ROUNDS = 7;
const ROUND_MS = 10;
/** Heads, KV heads and head size. */
const SHAPES = [[16, 8, 128], [14, 2, 64], [8, 8, 64]] as const;
/** The number of sequences, then the queries and the keys of each sequence. */
const STEPS = [
  ...[[1, 463, 463], [1, 2000, 2000], [1, 512, 2000]],
  ...[[1, 1, 512], [1, 1, 2000], [1, 1, 8000]],
  ...[[8, 1, 512], [8, 1, 2000], [8, 1, 8000]],
] as const;

/** Median milliseconds of a call. */
async function timeCall(call: () => unknown): Promise<number> {
  const startedAt = performance.now();
  let calls = 0;
  for (; performance.now() - startedAt < 3 * ROUND_MS; calls++) await call();
  const perRound = Math.ceil(calls / 3);
  const times: number[] = [];
  while (times.length < ROUNDS) {
    const roundAt = performance.now();
    for (let i = 0; i < perRound; i++) await call();
    times.push((performance.now() - roundAt) / perRound);
  }
  return median(times);
}

/** Opens a layer whose cache holds the sequences of a step, and whose inputs hold the step's queries. */
function openLayer(
  layer: SimdLayer,
  { step, numBlocks }: { readonly step: PackedStep; readonly numBlocks: number },
  threads: KernelThreads,
): SimdAttention {
  const numKeys = step.kvLengths[0]!;
  const attention = new SimdAttention([layer], {
    numBlocks,
    maxTokens: Math.max(step.numTokens, numKeys),
    maxSequences: step.sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
    threads,
  });
  const { q } = attention.inputs(0);
  const some = Float32Array.from({ length: 9973 }, makeNormal(1));
  for (let i = 0; i < q.length; i++) q[i] = some[i % some.length]!;
  // Writes to the memory, because pages that were never written would all be the same physical page.
  for (let s = 0; s < step.sequences.length; s++) {
    const table = s * step.maxBlocksPerSequence;
    attention.begin({
      sequences: { length: 1 },
      numTokens: numKeys,
      positions: Int32Array.from({ length: numKeys }, (_, i) => i),
      queryStarts: Int32Array.of(0, numKeys),
      kvLengths: Int32Array.of(numKeys),
      blockTables: step.blockTables.subarray(table, table + step.maxBlocksPerSequence),
      maxBlocksPerSequence: step.maxBlocksPerSequence,
    });
    attention.write(0);
  }
  attention.begin(step);
  return attention;
}

const numThreads = await countCores();
const alone = new KernelThreads(1);
const together = new KernelThreads(numThreads);
const backend = await CpuBackend.open({ threads: numThreads });
const rows: string[][] = [];
for (const [heads, kvHeads, headSize] of SHAPES) {
  for (const [numSequences, queries, keys] of STEPS) {
    const shape = { heads, kvHeads, headSize, blockSize: BLOCK_SIZE, elem: "f32" } as const;
    const layer = makeLayer(shape);
    const sequences = Array.from({ length: numSequences }, () => ({ queries, keys }));
    const made = makeStep(sequences, BLOCK_SIZE);
    const one = openLayer(layer, made, alone);
    const oneMs = await timeCall(() => one.attend(0));
    const many = openLayer(layer, made, together);
    const manyMs = await timeCall(() => many.attend(0));
    const numPairs = numSequences * queries * (keys - (queries - 1) / 2);
    const bytes = numSequences * keys * kvHeads * headSize * 8;
    const speed = (ms: number) =>
      queries > 1
        ? `${(numPairs * heads * headSize * 4 / ms / 1e6).toFixed(1)} GFLOP/s`
        : `${(bytes / ms / 1e6).toFixed(1)} GB/s`;
    let native = "";
    if (queries > 1 && backend.runtime === "native") {
      const params = { ...layer, attend: { ...layer.attend, hasSinks: false, hasSlopes: false } };
      const prompts = new PromptAttention(
        [{ ...params, attend: { ...params.attend, queryStride: 0, queryOffset: 0 } }],
        (model) => backend.openSession(model),
      );
      const { step } = made;
      const into = new Float32Array(step.numTokens * heads * headSize);
      native = speed(
        await timeCall(() =>
          prompts.run(0, { kernels: one, step, sequences: [0], into, slices: undefined })
        ),
      );
      prompts.dispose();
    }
    one.dispose();
    many.dispose();
    rows.push([
      `${heads} heads on ${kvHeads} of ${headSize}`,
      `${numSequences} × ${queries} queries, ${keys} keys`,
      `${(oneMs * 1000).toFixed(0)} µs`,
      speed(oneMs),
      speed(manyMs),
      `${(oneMs / manyMs).toFixed(2)}×`,
      native,
    ]);
  }
}
together.dispose();
await backend.dispose();
printTable(
  ["layer", "step", "1 thread", "1 thread", `${numThreads} threads`, "speed-up", "ONNX Runtime"],
  rows,
);
