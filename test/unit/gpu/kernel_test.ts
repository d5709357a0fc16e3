import assert from "node:assert/strict";
import { createBuffer, explainError, type GpuContext } from "../../../src/gpu/device.ts";
import { Kernel } from "../../../src/gpu/kernel.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import { gpuTest, openTestDevice } from "../../fixtures/engine/gpu.ts";
import { recordGpu } from "../../fixtures/engine/recording_gpu.ts";

const SCALE = {
  name: "scale",
  source: `
    override FACTOR: f32;
    @group(0) @binding(0) var<storage, read> source: array<f32>;
    @group(0) @binding(1) var<storage, read_write> product: array<f32>;
    @compute @workgroup_size(4)
    fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
      product[id.x] = source[id.x] * FACTOR;
    }`,
  bindings: { source: "read", product: "read_write" },
  constants: { FACTOR: 3 },
} as const;

function createFloats(gpu: GpuContext, values: number[]): GPUBuffer {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const buffer = createBuffer(gpu, { size: values.length * 4, usage });
  gpu.device.queue.writeBuffer(buffer, 0, Float32Array.from(values));
  return buffer;
}

async function run(
  gpu: GpuContext,
  buffer: GPUBuffer,
  encode: (pass: GPUComputePassEncoder) => void,
): Promise<number[]> {
  const readback = await Readback.create(gpu, { maxBytes: buffer.size });
  const encoder = gpu.device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  encode(pass);
  pass.end();
  const bytes = await readback.read(encoder, [{ buffer, offset: 0, size: buffer.size }]);
  readback.dispose();
  return [...new Float32Array(bytes.buffer)];
}

gpuTest(
  "Kernel.encode() runs several kernels in one pass, each after the previous one",
  async (gpu) => {
    const source = createFloats(gpu, [1, 2, 3, 4]);
    const product = createFloats(gpu, [0, 0, 0, 0]);
    const triple = Kernel.get(gpu, SCALE);
    const halve = Kernel.get(gpu, { ...SCALE, constants: { FACTOR: 0.5 } });
    const result = await run(gpu, source, (pass) => {
      triple.encode(pass, { source, product }, [1]);
      halve.encode(pass, { source: product, product: source }, [1]);
    });
    assert.deepEqual(result, [1.5, 3, 4.5, 6]);
  },
);

gpuTest("Kernel.get() parses a source once for all its specialisations", (gpu) => {
  const { createShaderModule } = gpu.device;
  let numModules = 0;
  gpu.device.createShaderModule = (descriptor) => {
    numModules++;
    return createShaderModule.call(gpu.device, descriptor);
  };
  try {
    const source = `${SCALE.source} // parsed once`;
    for (const FACTOR of [5, 6, 7]) Kernel.get(gpu, { ...SCALE, source, constants: { FACTOR } });
    assert.equal(numModules, 1);
  } finally {
    gpu.device.createShaderModule = createShaderModule;
  }
});

gpuTest("Kernel.get() compiles a specification once per device", async (gpu) => {
  const first = Kernel.get(gpu, SCALE);
  const before = gpu.counts.pipelines;
  assert.equal(Kernel.get(gpu, { ...SCALE, constants: { FACTOR: 3 } }), first);
  assert.equal(gpu.counts.pipelines, before);
  const other = await openTestDevice();
  assert.notEqual(Kernel.get(other, SCALE), first);
  other.device.destroy();
});

gpuTest("Kernel.encode() creates one bind group for the same buffers", (gpu) => {
  const kernel = Kernel.get(gpu, SCALE);
  const source = createFloats(gpu, [1, 2, 3, 4]);
  const product = createFloats(gpu, [0, 0, 0, 0]);
  const before = gpu.counts.bindGroups;
  const encoder = gpu.device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  for (let i = 0; i < 3; i++) kernel.encode(pass, { source, product }, [1]);
  assert.equal(gpu.counts.bindGroups, before + 1);
  kernel.encode(pass, { source: product, product: source }, [1]);
  assert.equal(gpu.counts.bindGroups, before + 2);
  pass.end();
  encoder.finish();
});

gpuTest("Kernel.encode() throws if its kernel did not compile", async (gpu) => {
  const source = SCALE.source.replace("FACTOR;", "UNKNOWN;");
  const kernel = Kernel.get(gpu, { ...SCALE, source });
  await new Promise((resolve) => setTimeout(resolve, 0));
  const buffer = createFloats(gpu, [0]);
  const pass = gpu.device.createCommandEncoder().beginComputePass();
  assert.throws(
    () => kernel.encode(pass, { source: buffer, product: buffer }, [1]),
    /"scale" cannot run on this device: .*UNKNOWN/s,
  );
});

Deno.test("a kernel that the driver cannot compile is reported, though Deno gives no reason", async () => {
  const { gpu } = recordGpu({ isFallbackAdapter: false, hasF16: false });
  const errors = [new GPUInternalError(""), null];
  gpu.device.popErrorScope = () => Promise.resolve(errors.shift()!);
  const kernel = Kernel.get(gpu, SCALE);
  const wanted = /^The kernel "scale" cannot run on this device: an internal error of its driver/;
  assert.match(await gpu.uncompiled.promise, wanted);
  const buffer = createFloats(gpu, [0]);
  assert.throws(
    () => kernel.encode(gpu.commands, { source: buffer, product: buffer }, [1]),
    ({ message }: Error) => wanted.test(message),
  );
});

Deno.test("explainError() gives advice if a device is out of memory", () => {
  assert.match(explainError(new GPUOutOfMemoryError("")), /no memory left; .*smaller weights/);
  assert.equal(explainError(new GPUValidationError("a fault")), "a fault");
});

gpuTest("Kernel.encode() throws without a tensor, which its type refuses too", (gpu) => {
  const kernel = Kernel.get(gpu, SCALE);
  const [source, product] = [createFloats(gpu, [0]), createFloats(gpu, [0])];
  const pass = gpu.device.createCommandEncoder().beginComputePass();
  // @ts-expect-error: `product` is missing.
  assert.throws(() => kernel.encode(pass, { source }, [1]), TypeError);
  // @ts-expect-error: there is no `extra`. Only the type checker refuses it.
  kernel.encode(pass, { source, product, extra: product }, [1]);
  pass.end();
});

gpuTest(
  "Kernel.encode() refuses more workgroups than a device dispatches, naming their number",
  async (gpu) => {
    const source = createFloats(gpu, [1, 2, 3, 4]);
    const product = createFloats(gpu, [0, 0, 0, 0]);
    const kernel = Kernel.get(gpu, SCALE);
    const most = gpu.limits.maxComputeWorkgroupsPerDimension;
    await run(gpu, source, (pass) => {
      for (const workgroups of [[most + 1], [1, most + 1]] as const) {
        assert.throws(
          () => kernel.encode(pass, { source, product }, workgroups),
          new RegExp(`"scale" was given ${most + 1} workgroups; the device's limit is ${most}`),
        );
      }
      kernel.encode(pass, { source, product }, [1]);
    });
  },
);
