import assert from "node:assert/strict";
import { openBackend } from "../../../src/device/open.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { buildModel } from "../../fixtures/graphs/onnx_builder.ts";

const MODEL = buildModel({
  nodes: [makeNode("Neg", ["x"], ["y"])],
  inputs: [["x", "float32", [2]]],
  outputs: [["y", "float32", [2]]],
});

gpuTest("a backend opens graphs while the runtime is being loaded", async () => {
  const backend = await openBackend({ device: "webgpu" });
  backend.prepareRuntime();
  const session = await backend.openSession(MODEL);
  const { y } = await session.run({ x: new Tensor("float32", Float32Array.of(1, -2), [2]) });
  assert.deepEqual([...await backend.read(y!)], [-1, 2]);
  await session.release();
  await backend.dispose();
});

gpuTest("a backend may be disposed of while the runtime is being loaded", async () => {
  const backend = await openBackend({ device: "webgpu" });
  backend.prepareRuntime();
  await backend.dispose();
  const other = await openBackend({ device: "webgpu" });
  const session = await other.openSession(MODEL);
  const { y } = await session.run({ x: new Tensor("float32", Float32Array.of(3, 4), [2]) });
  assert.deepEqual([...await other.read(y!)], [-3, -4]);
  await session.release();
  await other.dispose();
});

gpuTest(
  "openBackend() refuses a GPU that cannot be opened if it is required, and otherwise uses the CPU",
  async () => {
    const { requestAdapter } = GPU.prototype;
    const { requestDevice } = GPUAdapter.prototype;
    GPUAdapter.prototype.requestDevice = () =>
      Promise.reject(new DOMException("no memory is left"));
    try {
      await assert.rejects(openBackend({ device: "webgpu" }), {
        name: "StartupError",
        message: "the GPU cannot be opened: no memory is left",
      });
      // `auto` skips software adapters, so this one claims to be hardware.
      GPU.prototype.requestAdapter = async function (options) {
        const adapter = await requestAdapter.call(this, options);
        Object.defineProperty(adapter, "info", { value: { isFallbackAdapter: false } });
        return adapter;
      };
      const backend = await openBackend({ device: "auto" });
      assert.equal(backend.kind, "cpu");
      await backend.dispose();
    } finally {
      GPU.prototype.requestAdapter = requestAdapter;
      GPUAdapter.prototype.requestDevice = requestDevice;
    }
  },
);

gpuTest("a backend is lost once its device has no memory left, and says what to do", async () => {
  const { requestDevice } = GPUAdapter.prototype;
  let device: GPUDevice | undefined;
  GPUAdapter.prototype.requestDevice = async function (descriptor) {
    return device = await requestDevice.call(this, descriptor);
  };
  try {
    const backend = await openBackend({ device: "webgpu" });
    const error = new GPUOutOfMemoryError("not enough memory left");
    device!.dispatchEvent(new GPUUncapturedErrorEvent("uncapturederror", { error }));
    assert.match(
      await backend.lost,
      /^the GPU reported an error: it has no memory left; .*smaller weights/,
    );
    await backend.dispose();
  } finally {
    GPUAdapter.prototype.requestDevice = requestDevice;
  }
});
