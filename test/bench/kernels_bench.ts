/**
 * Times Hearth's kernels: `paged_attention` compared with ONNX Runtime's GroupQueryAttention on the same device and
 * shapes, and `sample` compared with its reference.
 *
 * `deno run -A test/bench/kernels_bench.ts [--quick]`
 *
 * @module
 */
import { PagedAttention, StepBuffer } from "../../kernels/attention/paged_attention.ts";
import { SampleKernel } from "../../kernels/sample/sample.ts";
import { ReferenceSampler } from "../../kernels/sample/sample_reference.ts";
import type { SampleRow, SamplingParams } from "../../kernels/sample/sample_row.ts";
import { type GpuContext, openDevice } from "../../src/gpu/device.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { makeNormal, makeRow } from "../kernels/exact_sampling.ts";
import { makeStep } from "../kernels/paged_case.ts";
import { upload } from "../kernels/tensors.ts";
import { type AttentionBatch, OrtAttention } from "./ort_attention.ts";
import { createRandom } from "./random_buffer.ts";

const BLOCK_SIZE = 16;
const ROUNDS = 5;

/** Work to time, and the buffer that it writes last. */
interface Contender {
  readonly out: GPUBuffer;
  run(): void | Promise<void>;
  dispose(): void | Promise<void>;
}

function createOurs(gpu: GpuContext, batch: AttentionBatch): Contender {
  const { elem, heads, kvHeads, headSize, queries, keys } = batch;
  const sequences = Array.from({ length: batch.sequences }, () => ({ queries, keys }));
  const { step, numBlocks } = makeStep(sequences, BLOCK_SIZE, { spareBlocks: 0 });
  const stepBuffer = new StepBuffer(
    gpu,
    { heads, kvHeads, headSize, blockSize: BLOCK_SIZE, elem },
    {
      maxTokens: step.numTokens,
      maxSequences: sequences.length,
      maxBlocksPerSequence: step.maxBlocksPerSequence,
    },
  );
  const attention = new PagedAttention(gpu, stepBuffer, {
    scale: 1 / Math.sqrt(headSize),
    softcap: 0,
    window: 0,
    hasSinks: false,
    hasSlopes: false,
    queryStride: heads * headSize,
    queryOffset: 0,
  });
  const cacheLength = numBlocks * kvHeads * BLOCK_SIZE * headSize;
  const tensors = {
    q: createRandom(gpu, step.numTokens * heads * headSize, elem),
    kCache: createRandom(gpu, cacheLength, elem),
    vCache: createRandom(gpu, cacheLength, elem),
    out: createRandom(gpu, step.numTokens * heads * headSize, elem),
  };
  return {
    out: tensors.out,
    run() {
      stepBuffer.write(step);
      const encoder = gpu.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      attention.encode(pass, tensors);
      pass.end();
      gpu.device.queue.submit([encoder.finish()]);
    },
    dispose() {
      stepBuffer.dispose();
      for (const buffer of Object.values(tensors)) buffer.destroy();
    },
  };
}

/** Milliseconds until the work of `repeats` runs has reached the host, per run. */
async function time(gpu: GpuContext, readback: Readback, contender: Contender, repeats: number) {
  const start = performance.now();
  for (let i = 0; i < repeats; i++) await contender.run();
  const range = { buffer: contender.out, offset: 0, size: 4 };
  await readback.read(gpu.device.createCommandEncoder(), [range]);
  return (performance.now() - start) / repeats;
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;

/** Alternates between both contenders, so that other work on the machine affects both. */
async function compare(gpu: GpuContext, readback: Readback, batch: AttentionBatch) {
  const contenders = [createOurs(gpu, batch), await OrtAttention.create(gpu, batch)];
  const times: number[][] = contenders.map(() => []);
  const repeats = batch.queries === 1 ? 4 : 1;
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [i, contender] of contenders.entries()) {
      const milliseconds = await time(gpu, readback, contender, repeats);
      // The first round compiles.
      if (round > 0) times[i]!.push(milliseconds);
    }
  }
  for (const contender of contenders) await contender.dispose();
  const [ours, theirs] = times.map(median);
  return { ours: ours!, theirs: theirs! };
}

const VOCAB_SIZE = 151_936;
const SAMPLED_ROWS = 4;
const SETTINGS: Record<string, [Partial<SamplingParams>, Partial<SampleRow>?]> = {
  "greedy": [{}],
  "temperature 1": [{ temperature: 1 }],
  "top-p 0.95": [{ temperature: 1, topP: 0.95 }],
  "top-k 20, top-p 0.95": [{ temperature: 0.6, topK: 20, topP: 0.95 }],
  "greedy, 20 log-probabilities": [{}, { topLogprobs: 20 }],
};

/** Milliseconds per step of a few rows, including the read-back, and of the reference. */
async function compareSampling(
  gpu: GpuContext,
  readback: Readback,
  setting: string,
) {
  const normal = makeNormal(2);
  const logits = new Float32Array(VOCAB_SIZE * SAMPLED_ROWS).map(() => normal() * 2.5);
  for (let i = 0; i < 40; i++) logits[i * 2971 % logits.length]! += 14;
  const buffer = upload(gpu, logits, "f32");
  const sampler = new SampleKernel(gpu, {
    vocabSize: VOCAB_SIZE,
    rowStride: VOCAB_SIZE,
    elem: "f32",
    maxRows: SAMPLED_ROWS,
  });
  const reference = new ReferenceSampler(VOCAB_SIZE);
  const [params, rest] = SETTINGS[setting]!;
  const ours = [];
  const theirs = [];
  for (let round = 0; round <= 2 * ROUNDS; round++) {
    const rows = Array.from(
      { length: SAMPLED_ROWS },
      (_, seed) => makeRow({ ...params, seed }, { ...rest, tokenIndex: round }),
    );
    let start = performance.now();
    sampler.write(rows);
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    sampler.encode(pass, buffer);
    pass.end();
    sampler.decode(await readback.read(encoder, sampler.results()));
    if (round > 0) ours.push(performance.now() - start);
    start = performance.now();
    reference.sample(logits, VOCAB_SIZE, rows);
    if (round > 0) theirs.push(performance.now() - start);
  }
  buffer.destroy();
  sampler.dispose();
  return { ours: median(ours), theirs: median(theirs) };
}

const print = (line: string) => Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
const gpu = await openDevice({
  allowFallback: true,
  onError: (error) => {
    print(`The device reports an error: ${error.message}`);
    Deno.exit(1);
  },
});
if (gpu === undefined) throw new Error("There is no WebGPU adapter to measure.");
const readback = await Readback.create(gpu, { maxBytes: 2048 });

print(`adapter: ${gpu.adapterInfo.description}, medians of ${ROUNDS} rounds, ms`);
print("| elem | heads | kv | size | batch | queries | keys | ours | ORT GQA | speed-up |");
print("|---|---|---|---|---|---|---|---|---|---|");
const isQuick = Deno.args.includes("--quick");
for (const elem of ["f32", "f16"] as const) {
  for (const [heads, kvHeads, headSize] of [[14, 2, 64], [16, 8, 128]] as const) {
    const lengths = [128, 1024, 4096].map((keys) => [1, keys] as const);
    for (const sequences of isQuick ? [1] : [1, 8]) {
      for (const [queries, keys] of [[512, 512] as const, ...lengths]) {
        const batch = { elem, heads, kvHeads, headSize, sequences, queries, keys };
        const { ours, theirs } = await compare(gpu, readback, batch);
        const speedUp = (theirs / ours).toFixed(2);
        print(
          `| ${elem} | ${heads} | ${kvHeads} | ${headSize} | ${sequences} | ${queries} | ${keys} ` +
            `| ${ours.toFixed(2)} | ${theirs.toFixed(2)} | ${speedUp} |`,
        );
      }
    }
  }
}

print(`\nsample: ${SAMPLED_ROWS} rows of ${VOCAB_SIZE} f32 logits, ms per step`);
print("| setting | device | reference (CPU) |");
print("|---|---|---|");
for (const setting of Object.keys(SETTINGS)) {
  const { ours, theirs } = await compareSampling(gpu, readback, setting);
  print(`| ${setting} | ${ours.toFixed(2)} | ${theirs.toFixed(2)} |`);
}
