import assert from "node:assert/strict";
import { canTakeRangeEarly } from "../../../src/gpu/ort_buffers.ts";
import { queueDone } from "../../../src/gpu/device.ts";
import { gpuTest, openTestDevice } from "../../fixtures/engine/gpu.ts";

gpuTest("queueDone() waits for a timer only the first time", async (gpu) => {
  await queueDone(gpu.device);
  let waited = false;
  const timer = setTimeout(() => waited = true, 0);
  for (let i = 0; i < 3; i++) await queueDone(gpu.device);
  clearTimeout(timer);
  assert.equal(waited, false);
}, { ignore: !canTakeRangeEarly() });

gpuTest("queueDone() resolves after earlier submits", async ({ device }) => {
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  const size = 2 ** 24;
  const target = device.createBuffer({ label: "target", size, usage });
  const source = device.createBuffer({ label: "source", size, usage: GPUBufferUsage.COPY_SRC | 8 });
  device.queue.writeBuffer(source, size - 4, Uint32Array.of(7));
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(source, 0, target, 0, size);
  device.queue.submit([encoder.finish()]);
  await queueDone(device);
  await target.mapAsync(GPUMapMode.READ);
  assert.equal(new Uint32Array(target.getMappedRange()).at(-1), 7);
  for (const buffer of [target, source]) buffer.destroy();
});

gpuTest("queueDone() fails after the device is lost", async () => {
  const { device } = await openTestDevice();
  await queueDone(device);
  device.destroy();
  await assert.rejects(queueDone(device));
});
