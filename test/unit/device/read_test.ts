/** The outputs of a session are read as f32, from any type. */
import assert from "node:assert/strict";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { buildModel } from "../../fixtures/graphs/onnx_builder.ts";

/** An odd number of float16 elements does not fill whole words. */
const VALUES = [0.5, -2, 1024, 0, 0.25];

const TYPES = [["float32", 1], ["float16", 10]] as const;

async function checkReads(backend: Backend): Promise<void> {
  for (const [type, number] of TYPES) {
    const session = await backend.openSession(buildModel({
      nodes: [makeNode("Cast", ["x"], ["y"], { attributes: { to: number } })],
      inputs: [["x", "float32", ["n"]]],
      outputs: [["y", type, ["n"]]],
    }));
    const x = new Tensor("float32", Float32Array.from(VALUES), [VALUES.length]);
    const { y } = await session.run({ x });
    assert.equal(y!.type, type);
    const read = await backend.read(y!);
    assert.ok(read instanceof Float32Array);
    assert.deepEqual([...read], VALUES, type);
    y!.dispose();
    await session.release();
  }
}

for (const choice of ["native", "web"] as const) {
  Deno.test(`CpuBackend.read() returns float16 elements as f32 (${choice})`, async () => {
    const backend = await CpuBackend.open({ choice });
    await checkReads(backend);
    await backend.dispose();
  });
}

gpuTest("WebGpuBackend.read() returns float16 elements as f32", async (gpu) => {
  await checkReads(await WebGpuBackend.create(gpu));
});
