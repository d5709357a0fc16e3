import assert from "node:assert/strict";
import { Readback } from "../../../src/gpu/readback.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { buildModel } from "../../fixtures/graphs/onnx_builder.ts";

const UPLOAD = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;

gpuTest("openDevice() gives a device whose upload buffers hold what was mapped", async (gpu) => {
  const { device } = gpu;
  const buffer = device.createBuffer({ size: 32, usage: UPLOAD, mappedAtCreation: true });
  const first = buffer.getMappedRange(0, 8);
  new Uint32Array(first).set([1, 2]);
  new Uint32Array(buffer.getMappedRange(16)).set([5, 6, 7, 8]);
  buffer.unmap();
  assert.ok(first.detached);
  const readback = await Readback.create(gpu, { maxBytes: 32 });
  const encoder = device.createCommandEncoder();
  const bytes = await readback.read(encoder, [{ buffer, offset: 0, size: 32 }]);
  assert.deepEqual([...new Uint32Array(bytes.buffer)], [1, 2, 0, 0, 5, 6, 7, 8]);
  buffer.destroy();
  readback.dispose();
});

gpuTest(
  "ONNX Runtime uploads weights and inputs without mapped memory of the device",
  async (gpu) => {
    const { getMappedRange } = GPUBuffer.prototype;
    let numMapped = 0;
    GPUBuffer.prototype.getMappedRange = function (...range) {
      numMapped++;
      return getMappedRange.apply(this, range);
    };
    try {
      const weights = Float32Array.from({ length: 1000 }, (_, i) => i);
      const data = { kind: "memory", bytes: new Uint8Array(weights.buffer) } as const;
      const session = await openSession(
        buildModel({
          nodes: [makeNode("Add", ["x", "w"], ["y"])],
          initializers: [{ name: "w", dtype: "float32", shape: [1000], data, rest: [] }],
          inputs: [["x", "float32", [1000]]],
          outputs: [["y", "float32", [1000]]],
        }),
        { device: gpu.device },
      );
      const results = await Promise.all([1, 2, 3].map(async (factor) => {
        const x = new Tensor("float32", weights.map((value) => factor * value), [1000]);
        return (await session.run({ x }))["y"]!;
      }));
      assert.equal(numMapped, 0);
      for (const [i, y] of results.entries()) {
        assert.deepEqual(await y.getData(), weights.map((value) => (i + 2) * value));
        y.dispose();
      }
      await session.release();
    } finally {
      GPUBuffer.prototype.getMappedRange = getMappedRange;
    }
  },
);
