import assert from "node:assert/strict";
import {
  createBuffer,
  findAdapter,
  openDevice,
  usesMachineMemory,
} from "../../../src/gpu/device.ts";
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

gpuTest(
  "openDevice() requests bindings below 4 GiB, though Apple's adapters have larger ones",
  async () => {
    const { requestDevice } = GPUAdapter.prototype;
    const getter = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, "limits")!;
    const { limits } = (await findAdapter({ allowFallback: true }))!;
    const get = (_: GPUSupportedLimits, name: string) =>
      name === "maxStorageBufferBindingSize" ? 2 ** 35 : Reflect.get(limits, name);
    Object.defineProperty(GPUAdapter.prototype, "limits", {
      ...getter,
      get: () => new Proxy(limits, { get }),
    });
    const seen: GPUDeviceDescriptor[] = [];
    GPUAdapter.prototype.requestDevice = function (descriptor) {
      seen.push(descriptor!);
      return requestDevice.call(this);
    };
    try {
      (await openDevice({ allowFallback: true }))!.device.destroy();
    } finally {
      GPUAdapter.prototype.requestDevice = requestDevice;
      Object.defineProperty(GPUAdapter.prototype, "limits", getter);
    }
    assert.equal(seen[0]!.requiredLimits!["maxStorageBufferBindingSize"], 2 ** 32 - 4);
  },
);

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

gpuTest("createBuffer() increases GpuContext.counts.buffers", (gpu) => {
  const before = gpu.counts.buffers;
  createBuffer(gpu, { size: 16, usage: GPUBufferUsage.STORAGE }).destroy();
  assert.equal(gpu.counts.buffers, before + 1);
});

/** Adapters as Deno describes them: the vendor's number, and the name that the driver gives. */
const SHARING = [
  ["0", "Apple M2 Pro"],
  ["32902", "Intel(R) Iris(R) Xe Graphics"],
  ["32902", "Intel(R) Arc(TM) 140V GPU (16GB)"],
  ["32902", "Intel(R) Arc(tm) Graphics (MTL)"],
  ["4098", "AMD Radeon(TM) Graphics"],
  ["4098", "AMD Radeon 780M Graphics (RADV PHOENIX)"],
  ["4098", "AMD Radeon 680M (RADV REMBRANDT)"],
  ["4098", "AMD Radeon(TM) 8060S Graphics"],
  ["4098", "AMD Radeon(TM) RX Vega 10 Graphics"],
  ["4098", "AMD Custom GPU 0405 (RADV VANGOGH)"],
  ["20803", "Qualcomm(R) Adreno(TM) X1-85 GPU"],
  ["4318", "NVIDIA GB10"],
] as const;
const CARDS = [
  ["4318", "NVIDIA GeForce RTX 4060 Laptop GPU"],
  ["4098", "AMD Radeon RX 7600M XT"],
  ["4098", "AMD Radeon RX 7800 XT (RADV NAVI32)"],
  ["0", "AMD Radeon Pro 5500M"],
  ["4098", "AMD Radeon VII"],
  ["32902", "Intel(R) Arc(TM) A770M Graphics"],
  ["32902", "Intel(R) Arc(tm) B580 Graphics (BMG G21)"],
  ["32902", "Intel(R) Arc(TM) Pro B50 Graphics"],
] as const;

Deno.test("usesMachineMemory() tells integrated graphics from cards by their names", () => {
  for (const [list, expected] of [[SHARING, true], [CARDS, false]] as const) {
    for (const [vendor, description] of list) {
      const adapterInfo = { vendor, description };
      const actual = usesMachineMemory({ adapterInfo, isFallbackAdapter: false });
      assert.equal(actual, expected, description);
    }
  }
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
