/**
 * Compares keys and values in 8 bits with f32 on the CPU, or with f16 on a GPU: attention and cache writes of one layer
 * on the CPU, of 36 layers on a GPU. Rounds alternate, since the machine may be busy.
 *
 *     deno task bench kv_q8
 *
 * @module
 */
import { SimdAttention } from "../../kernels/attention/attention_simd.ts";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import { cachedHeadBytes } from "../../kernels/attention/attention_shape.ts";
import { KvWrite } from "../../kernels/attention/kv_write.ts";
import { PagedAttention, StepBuffer } from "../../kernels/attention/paged_attention.ts";
import { countCores } from "../../src/device/cpu/runtime.ts";
import { createBuffer, type GpuContext, openDevice, queueDone } from "../../src/gpu/device.ts";
import { makeLayer } from "../kernels/attention_simd_case.ts";
import { makeStep } from "../kernels/paged_case.ts";
import { median, printTable } from "./report.ts";

/** The sizes of Qwen3-4B. */
const SHAPE = { heads: 32, kvHeads: 8, headSize: 128, blockSize: 16 } as const;
const STEPS = [[1, 1, 512], [1, 1, 4000], [1, 1, 32_000], [8, 1, 4000], [1, 512, 4000]] as const;
const ROUNDS = 9;
/** Layers on a GPU, recorded one after the other. */
const LAYERS = 36;

interface Runner {
  run(): void | Promise<void>;
  dispose(): void;
}

function makeCase([sequences, queries, keys]: readonly [number, number, number]) {
  return makeStep(Array.from({ length: sequences }, () => ({ queries, keys })), SHAPE.blockSize);
}

function openOnCpu(
  { step, numBlocks }: ReturnType<typeof makeCase>,
  { isQuantized, threads }: { isQuantized: boolean; threads: KernelThreads },
): Runner {
  const attention = new SimdAttention([makeLayer({ ...SHAPE, elem: "f32", isQuantized })], {
    ...{ numBlocks, threads, maxTokens: step.numTokens },
    maxSequences: step.sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
  });
  attention.begin(step);
  return { run: () => void attention.run(0), dispose: () => attention.dispose() };
}

function openOnGpu(
  gpu: GpuContext,
  { step, numBlocks }: ReturnType<typeof makeCase>,
  isQuantized: boolean,
): Runner {
  const { heads, kvHeads, headSize, blockSize } = SHAPE;
  const shape = { ...SHAPE, elem: "f16", isQuantized } as const;
  const plan = new StepBuffer(gpu, shape, {
    maxTokens: step.numTokens,
    maxSequences: step.sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
  });
  const stride = (heads + 2 * kvHeads) * headSize;
  const write = new KvWrite(gpu, plan, {
    q: { stride, offset: 0 },
    k: { stride, offset: heads * headSize },
    v: { stride, offset: (heads + kvHeads) * headSize },
  });
  const attend = new PagedAttention(gpu, plan, {
    ...{ scale: 0.1, softcap: 0, window: 0, hasSinks: false, hasSlopes: false },
    ...{ queryStride: stride, queryOffset: 0 },
  });
  const make = (size: number) => createBuffer(gpu, { size, usage: GPUBufferUsage.STORAGE });
  const cacheBytes = numBlocks * blockSize * kvHeads * cachedHeadBytes(shape);
  const layers = Array.from({ length: LAYERS }, () => ({
    ...{ kCache: make(cacheBytes), vCache: make(cacheBytes) },
  }));
  const [q, out] = [make(step.numTokens * stride * 2), make(step.numTokens * heads * headSize * 2)];
  plan.write(step);
  return {
    run: async () => {
      for (const caches of layers) {
        write.encode(gpu.commands, { q, k: q, v: q, ...caches });
        attend.encode(gpu.commands, { q, out, ...caches });
      }
      gpu.commands.submit();
      await queueDone(gpu.device);
    },
    dispose: () => {
      plan.dispose();
      for (const buffer of [q, out, ...layers.flatMap((each) => Object.values(each))]) {
        buffer.destroy();
      }
    },
  };
}

/** Median milliseconds of each runner. */
async function compare(plain: Runner, rounded: Runner): Promise<[number, number]> {
  const times: [number[], number[]] = [[], []];
  for (let round = -2; round < ROUNDS; round++) {
    for (const [i, runner] of [plain, rounded].entries()) {
      const startedAt = performance.now();
      await runner.run();
      if (round >= 0) times[i]!.push(performance.now() - startedAt);
    }
  }
  plain.dispose();
  rounded.dispose();
  return [median(times[0]), median(times[1])];
}

const rows: string[][] = [];
const gpu = Deno.args.includes("cpu") ? undefined : await openDevice({ allowFallback: false });
const threads = new KernelThreads(await countCores());
for (const sizes of STEPS) {
  const made = makeCase(sizes);
  const open = (isQuantized: boolean) =>
    gpu ? openOnGpu(gpu, made, isQuantized) : openOnCpu(made, { isQuantized, threads });
  const [plain, rounded] = await compare(open(false), open(true));
  const [sequences, queries, keys] = sizes;
  rows.push([
    `${sequences} × ${queries} queries, ${keys} keys`,
    plain.toFixed(2),
    rounded.toFixed(2),
    (plain / rounded).toFixed(2),
  ]);
}
threads.dispose();
printTable(["step", gpu ? "f16, ms" : "f32, ms", "8 bits, ms", "speed"], rows);
gpu?.device.destroy();
