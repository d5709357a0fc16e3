import assert from "node:assert/strict";
import { shareLstmCell } from "../../../src/gpu/ort_shaders.ts";
import { openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";

/** LSTM cell shaders that were created on any device. Cases that differ only in their sizes share a shader. */
const cells: string[] = [];
const { createShaderModule } = GPUDevice.prototype;
GPUDevice.prototype.createShaderModule = function (descriptor) {
  if (descriptor.code.includes("c_prev: array")) cells.push(descriptor.code);
  return createShaderModule.call(this, descriptor);
};

interface Lstm {
  readonly length: number;
  readonly batch: number;
  readonly input: number;
  readonly hidden: number;
  readonly directions: 1 | 2;
  readonly hasBias: boolean;
  readonly hasState: boolean;
}

/** Sizes smaller than a team, not divisible by a team's steps, and larger than a workgroup. */
const CASES: readonly Lstm[] = [
  { length: 5, batch: 1, input: 640, hidden: 256, directions: 2, hasBias: true, hasState: false },
  { length: 4, batch: 3, input: 131, hidden: 97, directions: 1, hasBias: true, hasState: true },
  { length: 1, batch: 2, input: 1, hidden: 5, directions: 2, hasBias: false, hasState: false },
  { length: 3, batch: 1, input: 128, hidden: 300, directions: 2, hasBias: true, hasState: true },
];

function buildLstm({ batch, input, hidden, directions, hasBias, hasState }: Lstm) {
  const graph = new GraphBuilder();
  const weights = (...shape: number[]) => graph.weights(shape, 1 / Math.sqrt(hidden));
  const state = () => hasState ? weights(directions, batch, hidden) : "";
  graph.add("LSTM", [
    "x",
    weights(directions, 4 * hidden, input),
    weights(directions, 4 * hidden, hidden),
    hasBias ? weights(directions, 8 * hidden) : "",
    "",
    state(),
    state(),
  ], {
    outputs: ["y", "y_h", "y_c"],
    attributes: {
      hidden_size: hidden,
      direction: directions === 2 ? "bidirectional" : "reverse",
    },
  });
  return graph.build({
    inputs: [["x", "float32", ["length", batch, input]]],
    outputs: [
      ["y", "float32", ["length", directions, batch, hidden]],
      ["y_h", "float32", [directions, batch, hidden]],
      ["y_c", "float32", [directions, batch, hidden]],
    ],
  });
}

for (const lstm of CASES) {
  const { length, batch, input, hidden } = lstm;
  gpuTest(`an LSTM of ${input} to ${hidden} on the GPU equals the CPU`, async (gpu) => {
    const model = buildLstm(lstm);
    const values = Float32Array.from({ length: length * batch * input }, (_, i) => Math.sin(i));
    const x = () => new Tensor("float32", values, [length, batch, input]);
    const native = await openSession(model, { runtime: "native", threads: 1 });
    const web = await openSession(model, { device: gpu.device });
    const expected = await native.run({ x: x() });
    const results = await web.run({ x: x() });
    assert.ok(cells.length > 0);
    for (const code of cells) assert.match(code, /team_sums/);
    for (const [name, tensor] of Object.entries(expected)) {
      const want = tensor.data as Float32Array;
      const got = await results[name]!.getData() as Float32Array;
      assert.equal(got.length, want.length);
      want.forEach((value, i) => assert.ok(Math.abs(got[i]! - value) < 1e-5, `${name}[${i}]`));
      results[name]!.dispose();
    }
    await Promise.all([native.release(), web.release()]);
  });
}

Deno.test("shareLstmCell() does not change other shaders", () => {
  const code = "fn main() { if (global_idx >= B * H) { return; } }";
  assert.equal(shareLstmCell(code, 1024), code);
});
