import assert from "node:assert/strict";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { decodeModel } from "../../fixtures/graphs/decode_model.ts";
import { Downloads } from "../../fixtures/engine/downloads.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";

/** Builds sums of one to four tensors. In the sum of four, one tensor is broadcast. */
function buildSums(): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const [x, double, negative] = [
    graph.add("Relu", ["x"]),
    graph.add("Add", ["x", "x"]),
    graph.add("Neg", ["x"]),
  ];
  const row = graph.add("ReduceMean", ["x"], { attributes: { axes: [0] } });
  graph.add("Sum", [x], { outputs: ["one"] });
  graph.add("Sum", [x, double], { outputs: ["two"] });
  graph.add("Sum", [x, double, negative], { outputs: ["three"] });
  const all = graph.add("Sum", [row, x, double, negative]);
  graph.add("Neg", [all], { outputs: ["four"] });
  return graph.build({
    inputs: [["x", "float32", [2, 3]]],
    outputs: ["one", "two", "three", "four"].map((name) => [name, "float32", [2, 3]]),
  });
}

gpuTest("WebGpuBackend.openModel() computes sums on the GPU, without downloads", async (gpu) => {
  const backend = await WebGpuBackend.create(gpu);
  const model = await decodeModel(buildSums());
  const files = {
    size: () => Promise.reject(new Error("There are no files.")),
    read: () => Promise.reject(new Error("There are no files.")),
  };
  const session = await backend.openModel(model, files);
  const values = [1, -2, 3, -4, 5, 6];
  using downloads = new Downloads(gpu.device);
  const outputs = await session.run({
    x: new Tensor("float32", Float32Array.from(values), [2, 3]),
  });
  assert.deepEqual(downloads.sizes, []);
  const relu = (v: number) => Math.max(v, 0);
  const mean = (i: number) => (values[i % 3]! + values[i % 3 + 3]!) / 2;
  const wanted = {
    one: values.map(relu),
    two: values.map((v) => relu(v) + 2 * v),
    three: values.map((v) => relu(v) + v),
    four: values.map((v, i) => -(mean(i) + relu(v) + v)),
  };
  for (const [name, want] of Object.entries(wanted)) {
    assert.deepEqual([...await backend.read(outputs[name]!)], want, name);
    outputs[name]!.dispose();
  }
  await session.release();
});
