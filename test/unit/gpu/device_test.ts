import assert from "node:assert/strict";
import { createBuffer, findAdapter, openDevice } from "../../../src/gpu/device.ts";
import { gpuTest, openTestDevice } from "../../fixtures/engine/gpu.ts";

gpuTest("openDevice() requests the adapter's limits and its features", async (gpu) => {
  const adapter = await findAdapter({ allowFallback: true });
  assert.ok(adapter !== undefined);
  assert.equal(gpu.limits.maxBufferSize, adapter.limits.maxBufferSize);
  assert.equal(
    gpu.limits.maxStorageBuffersPerShaderStage,
    adapter.limits.maxStorageBuffersPerShaderStage,
  );
  assert.equal(gpu.hasF16, adapter.features.has("shader-f16"));
});

gpuTest("findAdapter() returns a software adapter only if allowed", async (gpu) => {
  const adapter = await findAdapter({ allowFallback: false });
  assert.equal(adapter === undefined, gpu.isFallbackAdapter);
  assert.equal(await openDevice({ allowFallback: false }) === undefined, gpu.isFallbackAdapter);
});

gpuTest("GpuContext.lost resolves after the device is destroyed", async () => {
  const gpu = await openTestDevice();
  gpu.device.destroy();
  assert.equal((await gpu.lost).reason, "destroyed");
});

gpuTest("createBuffer() is counted", (gpu) => {
  const before = gpu.counts.buffers;
  createBuffer(gpu, { size: 16, usage: GPUBufferUsage.STORAGE }).destroy();
  assert.equal(gpu.counts.buffers, before + 1);
});

Deno.test({
  name: "findAdapter() does not fall back on an OpenGL adapter if there is no Vulkan driver",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const device = new URL("../../../src/gpu/device.ts", import.meta.url).href;
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        `const { findAdapter } = await import("${device}");
         const adapter = await findAdapter({ allowFallback: true });
         console.log(adapter?.info.description ?? "none");`,
      ],
      env: { VK_DRIVER_FILES: "/nowhere", VK_ICD_FILENAMES: "/nowhere", DENO_WEBGPU_BACKEND: "" },
    }).output();
    const text = new TextDecoder().decode(stdout);
    assert.equal(text, "none\n", new TextDecoder().decode(stderr));
  },
});
