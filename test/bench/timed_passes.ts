/**
 * Compares the times of kernels on a GPU.
 *
 * A card lowers its clock after a pause of milliseconds, so a kernel that is measured first looks several times slower.
 * Therefore all kernels are recorded into one submit, in passes with timestamps, after work that raises the clock.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import type { GpuContext } from "../../src/gpu/device.ts";

/** A kernel to time. */
export interface TimedKernel {
  readonly encode: (pass: ComputePass) => void;
  /** Dispatches of a pass; one if absent. */
  readonly repeats?: number;
}

/** Passes of each kernel. The fastest one counts, since disturbances only make a pass slower. */
const ROUNDS = 3;
/** Kernels in one submit: drivers abort submits that take seconds. */
const AT_ONCE = 16;

/** Microseconds of one run of each kernel; NaN if the device has no timestamps. */
export async function timeKernels(
  gpu: GpuContext,
  kernels: readonly TimedKernel[],
): Promise<number[]> {
  if (!gpu.features.has("timestamp-query")) return kernels.map(() => NaN);
  const times: number[] = [];
  for (let first = 0; first < kernels.length; first += AT_ONCE) {
    times.push(...await timeSome(gpu, kernels.slice(first, first + AT_ONCE)));
  }
  return times;
}

async function timeSome({ device }: GpuContext, kernels: readonly TimedKernel[]) {
  const count = 2 * kernels.length * ROUNDS;
  const querySet = device.createQuerySet({ type: "timestamp", count });
  const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
  const resolved = device.createBuffer({ size: 8 * count, usage });
  const staging = device.createBuffer({
    size: 8 * count,
    usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ,
  });
  const encoder = device.createCommandEncoder();
  const record = ({ encode, repeats = 1 }: TimedKernel, timed?: number) => {
    const timestampWrites = timed === undefined
      ? undefined
      : { querySet, beginningOfPassWriteIndex: timed, endOfPassWriteIndex: timed + 1 };
    const pass = encoder.beginComputePass(timestampWrites && { timestampWrites });
    for (let i = 0; i < repeats; i++) encode(pass);
    pass.end();
  };
  for (const kernel of kernels) record(kernel);
  for (let round = 0; round < ROUNDS; round++) {
    kernels.forEach((kernel, i) => record(kernel, 2 * (round * kernels.length + i)));
  }
  encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, staging, 0, 8 * count);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const stamps = new BigUint64Array(staging.getMappedRange().slice(0));
  for (const each of [resolved, staging, querySet]) each.destroy();
  return kernels.map(({ repeats = 1 }, i) => {
    const rounds = Array.from({ length: ROUNDS }, (_, round) => {
      const at = 2 * (round * kernels.length + i);
      return Number(stamps[at + 1]! - stamps[at]!) / 1000 / repeats;
    });
    return Math.min(...rounds);
  });
}
