/**
 * Compares two methods for the same small read from a GPU: the one in the WebGPU specification, and Hearth's early
 * read-back.
 *
 * `deno run -A test/bench/readback_bench.ts`
 *
 * @module
 */
import { createBuffer, openDevice } from "../../src/gpu/device.ts";
import { canTakeRangeEarly } from "../../src/gpu/ort_buffers.ts";
import { Readback } from "../../src/gpu/readback.ts";

const READS = 60;
const BYTES = 64;

const print = (line: string) => Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
const gpu = await openDevice({ allowFallback: true });
if (gpu === undefined) throw new Error("There is no WebGPU adapter to measure.");
const buffer = createBuffer(gpu, { size: BYTES, usage: GPUBufferUsage.COPY_SRC });

print(`adapter: ${gpu.adapterInfo.description}, Deno ${Deno.version.deno}`);
if (!canTakeRangeEarly()) {
  print("Hearth was not verified on this Deno: both rows measure the awaited read.");
}
print("| method | median ms per read |");
print("|---|---|");
for (const takesRangeEarly of [false, true]) {
  const readback = await Readback.create(gpu, { maxBytes: BYTES, takesRangeEarly });
  const times = [];
  for (let i = 0; i < READS; i++) {
    const start = performance.now();
    const range = { buffer, offset: 0, size: BYTES };
    await readback.read(gpu.device.createCommandEncoder(), [range]);
    times.push(performance.now() - start);
  }
  const median = times.sort((a, b) => a - b)[READS >> 1]!;
  print(`| ${takesRangeEarly ? "early" : "awaited"} | ${median.toFixed(3)} |`);
  readback.dispose();
}
