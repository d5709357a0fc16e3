/**
 * Finds the best tiles for prompt attention in half precision: a chunk of a prompt after a cached prefix of several
 * lengths, with the heads of Qwen3. The choices in `attention_shape.ts` come from this bench.
 *
 *     deno task bench attention_tiles
 *     deno run -A test/bench/attention_tiles_bench.ts 4B
 *
 * @module
 */
import { type AttentionShape, choosePagedTiling } from "../../kernels/attention/attention_shape.ts";
import {
  tileBytes,
  tileThreads,
  type TileTiling,
} from "../../kernels/attention/attention_source.ts";
import { PagedAttention, StepBuffer } from "../../kernels/attention/paged_attention.ts";
import { type GpuContext, openDevice } from "../../src/gpu/device.ts";
import { makeStep } from "../kernels/paged_case.ts";
import { createRandom } from "./random_buffer.ts";
import { printTable } from "./report.ts";
import { timeKernels } from "./timed_passes.ts";

const SHARED = { kvHeads: 8, headSize: 128, blockSize: 16, elem: "f16" } as const;
const SHAPES: Readonly<Record<string, AttentionShape>> = {
  "0.6B": { ...SHARED, heads: 16 },
  "4B": { ...SHARED, heads: 32 },
};
const QUERIES = 512;
const KEYS = [512, 1955, 7775];

const wanted = Deno.args.filter((arg) => arg in SHAPES);
const gpu = await openDevice({ allowFallback: true });
if (gpu === undefined) throw new Error("There is no WebGPU adapter to measure.");
if (!gpu.hasF16) throw new Error("The adapter has no half precision.");
// On a software adapter, the benchmark can only be tried out: its figures mean nothing.
const [queries, keyCounts] = gpu.isFallbackAdapter ? [32, [64]] : [QUERIES, KEYS];
const models = wanted.length > 0 ? wanted : Object.keys(SHAPES);

/** Tiles that fit the device; only a few on a software adapter. */
function tilesFor({ limits, isFallbackAdapter }: GpuContext, { headSize }: AttentionShape) {
  const tiles = [32, 64, 128].flatMap((rows) =>
    [1, 2, 4].flatMap((quads) =>
      [8, 16, 32].flatMap((threadsPerRow) =>
        [1, 2, 4, 8].flatMap((keysPerThread) =>
          [true, false].map((isHalf): TileTiling => ({
            ...{ rows, quads, threadsPerRow, keysPerThread, isHalf, isUnpacked: !isHalf },
          }))
        )
      )
    )
  );
  const fitting = tiles.filter((tile) =>
    tileThreads(tile) >= 64 && tileThreads(tile) <= limits.maxComputeInvocationsPerWorkgroup &&
    tile.threadsPerRow * tile.keysPerThread >= 16 &&
    tileBytes(headSize / 4, 8, tile) <= limits.maxComputeWorkgroupStorageSize
  );
  return isFallbackAdapter ? fitting.slice(0, 2) : fitting;
}

const getName = ({ rows, quads, threadsPerRow, keysPerThread, isHalf }: TileTiling) =>
  `${rows} rows, ${quads} quads, ${threadsPerRow} x ${keysPerThread} keys${isHalf ? "" : ", f32"}`;

async function search(gpu: GpuContext, shape: AttentionShape, keys: number): Promise<string[]> {
  const { heads, kvHeads, headSize, blockSize, elem } = shape;
  const { step, numBlocks } = makeStep([{ queries, keys }], blockSize, { spareBlocks: 0 });
  const limits = {
    maxTokens: queries,
    maxSequences: 1,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
  };
  const tensors = {
    q: createRandom(gpu, queries * heads * headSize, elem),
    kCache: createRandom(gpu, numBlocks * kvHeads * blockSize * headSize, elem),
    vCache: createRandom(gpu, numBlocks * kvHeads * blockSize * headSize, elem),
    out: createRandom(gpu, queries * heads * headSize, elem),
  };
  const chosen = choosePagedTiling(gpu, shape);
  const tiles = [chosen.tile!, ...tilesFor(gpu, shape)];
  const forms = new Map(tiles.map((tile) => [getName(tile), tile]));
  const steps = [...forms.values()].map((tile) => {
    const buffer = new StepBuffer(gpu, shape, limits, { ...chosen, tile });
    buffer.write(step);
    return buffer;
  });
  const times = await timeKernels(
    gpu,
    steps.map((buffer) => {
      const attention = new PagedAttention(gpu, buffer, {
        ...{
          scale: 1 / Math.sqrt(headSize),
          softcap: 0,
          window: 0,
          hasSinks: false,
          hasSlopes: false,
        },
        ...{ queryStride: heads * headSize, queryOffset: 0 },
      });
      return { encode: (pass) => attention.encode(pass, tensors), repeats: 4 };
    }),
  );
  for (const each of steps) each.dispose();
  for (const buffer of Object.values(tensors)) buffer.destroy();
  const ops = 4 * heads * headSize * queries * (keys - queries / 2);
  const named = [...forms.keys()].map((name, i) => ({ name, time: times[i]! }));
  const describe = ({ name, time }: (typeof named)[number]) =>
    `${name}: ${time.toFixed(0)} µs, ${(ops / time / 1e6).toFixed(1)} TFLOP/s`;
  const best = named.toSorted((a, b) => a.time - b.time).slice(0, 4).map(describe);
  return [`${keys}`, describe(named[0]!), ...best];
}

for (const model of models) {
  const rows: string[][] = [];
  for (const keys of keyCounts) rows.push(await search(gpu, SHAPES[model]!, keys));
  printTable([`keys of ${queries} queries, ${model}`, "chosen", "best", "second", "3", "4"], rows);
}
Deno.exit(0);
