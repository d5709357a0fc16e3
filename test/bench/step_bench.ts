/**
 * Measures the host's work for a step of one token until all of it is submitted to the GPU, with segments in Hearth's
 * kernels and with a run of ONNX Runtime for each segment, alternating. Only Linux provides the processor time of a
 * thread.
 *
 *     deno task bench step
 *
 * @module
 */
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import { WITHOUT_KERNELS } from "../../src/decoder/kernel_rule.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { firstTokens } from "../fixtures/engine/steps.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { smallQwen3Folder } from "./real/qwen3.ts";
import { median, printTable } from "./report.ts";

const STEPS = 40;
const WAYS = [["Hearth's kernels", undefined], ["ONNX Runtime", WITHOUT_KERNELS]] as const;

/** Times in milliseconds. */
interface Cost {
  readonly wall: number;
  readonly cpu: number;
}

/** Processor time of this thread so far, in milliseconds; NaN if the system does not provide it. */
function readCpuMs(): number {
  try {
    return Number(Deno.readTextFileSync("/proc/thread-self/schedstat").split(" ")[0]) / 1e6;
  } catch {
    return NaN;
  }
}

/** Runs a step, and measures the time until its last submit. */
async function computeCost(run: () => Promise<unknown>): Promise<Cost> {
  const { submit } = GPUQueue.prototype;
  let last = { wall: NaN, cpu: NaN };
  GPUQueue.prototype.submit = function (buffers) {
    submit.call(this, buffers);
    last = { wall: performance.now(), cpu: readCpuMs() };
  };
  const start = { wall: performance.now(), cpu: readCpuMs() };
  try {
    await run();
  } finally {
    GPUQueue.prototype.submit = submit;
  }
  return { wall: last.wall - start.wall, cpu: last.cpu - start.cpu };
}

async function benchModel(backend: WebGpuBackend, path: string, dtype: Dtype): Promise<string[][]> {
  const folder = await openFolder(path);
  const decoders = [];
  for (const [way, rule] of WAYS) {
    const context = makeContext(folder, { backend, dtype });
    const { decoder } = await loadDecoder({ ...context, ...rule && { rule } });
    if (!(decoder instanceof PagedDecoder)) throw new Error(`${path} is not cut.`);
    decoders.push({ way, decoder });
  }
  const costs: Record<string, Cost[]> = {};
  for (let i = 0; i <= STEPS; i++) {
    for (const { way, decoder } of decoders) {
      const step = firstTokens(1, decoder.limits, { isDecoding: true });
      const cost = await computeCost(() => decoder.run(step));
      // The first step compiles.
      if (i > 0) (costs[way] ??= []).push(cost);
    }
  }
  for (const { decoder } of decoders) await decoder.dispose();
  return WAYS.map(([way]) => [
    `${path.split("/").at(-1)} ${dtype}`,
    way,
    ...(["wall", "cpu"] as const).map((kind) =>
      median(costs[way]!.map((cost) => cost[kind])).toFixed(2)
    ),
  ]);
}

const gpu = await openDevice({ allowFallback: true });
if (gpu === undefined) throw new Error("There is no WebGPU adapter to measure.");
const backend = await WebGpuBackend.create(gpu);
const folders: [path: string | undefined, dtype: Dtype][] = [
  [findModelFolder("hearth-demo-chat"), "q4f16"],
  [findModelFolder("stories260k-llama"), "fp32"],
  [await smallQwen3Folder(), "q4f16"],
];
const rows: string[][] = [];
for (const [path, dtype] of folders) {
  if (path !== undefined) rows.push(...await benchModel(backend, path, dtype));
}
printTable([backend.adapter, "a step of one token in", "ms until submitted", "CPU ms"], rows);
Deno.exit(0);
