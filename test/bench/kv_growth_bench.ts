/**
 * Measures how long it takes to enlarge the KV cache of a model like Qwen3-4B on a GPU until the device has no more
 * memory, and to shrink it again. After each step, the content of the first blocks is verified.
 *
 *     deno task bench kv_growth
 *     deno run -A test/bench/kv_growth_bench.ts <most blocks>
 *
 * @module
 */
import { WebGpuKvCache } from "../../src/device/webgpu/kv_cache.ts";
import { openDevice, queueDone } from "../../src/gpu/device.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { printTable } from "./report.ts";

const LAYERS = 36;
/** Bytes of a block of keys: 16 tokens, 8 heads of 128 in f16. */
const BLOCK_BYTES = 16 * 8 * 128 * 2;
/** Blocks that take 256 MiB: keys and values of all layers. */
const START_BLOCKS = Math.floor(2 ** 28 / (2 * LAYERS * BLOCK_BYTES));

const gpu = await openDevice({ allowFallback: true, onError: ({ message }) => fail(message) });
if (gpu === undefined) throw new Error("There is no GPU.");
let lost = "";
gpu.lost.then(({ message }) => lost = message);

function fail(message: string): never {
  throw new Error(message);
}

const cache = new WebGpuKvCache(gpu, new Array<number>(LAYERS).fill(BLOCK_BYTES), START_BLOCKS);
cache.layers.forEach(({ keys, values }, layer) =>
  [keys, values].forEach((buffer, half) =>
    gpu.device.queue.writeBuffer(buffer, 64, Uint32Array.of(2 * layer + half + 1))
  )
);
const readback = await Readback.create(gpu, { maxBytes: 4 * 2 * LAYERS });

/** Whether every buffer still holds what was written to it. */
async function isIntact(): Promise<boolean> {
  const ranges = cache.layers.flatMap(({ keys, values }) => [keys, values])
    .map((buffer) => ({ buffer, offset: 64, size: 4 }));
  const bytes = await readback.read(gpu!.device.createCommandEncoder(), ranges);
  return new Uint32Array(bytes.slice().buffer).every((value, i) => value === i + 1);
}

const rows: string[][] = [];
async function resize(numBlocks: number): Promise<boolean> {
  await queueDone(gpu!.device);
  const startedAt = performance.now();
  const isGiven = await cache.resize(numBlocks);
  await queueDone(gpu!.device);
  const gib = (numBlocks * 2 * LAYERS * BLOCK_BYTES / 2 ** 30).toFixed(2);
  rows.push([
    `${numBlocks * 16} tokens, ${gib} GiB`,
    isGiven ? "given" : "refused",
    (performance.now() - startedAt).toFixed(0),
    await isIntact() && lost === "" ? "yes" : `no ${lost}`,
  ]);
  return isGiven;
}

let numBlocks = START_BLOCKS;
const most = Deno.args[0] === undefined ? Infinity : Number(Deno.args[0]);
for (let factor = 2; factor > 1.01 && numBlocks < most;) {
  if (await resize(Math.ceil(numBlocks * factor))) numBlocks = Math.ceil(numBlocks * factor);
  else factor = 1 + (factor - 1) / 4;
}
await resize(START_BLOCKS);
printTable(["pool", "device", "ms", "intact"], rows);
gpu.device.destroy();
