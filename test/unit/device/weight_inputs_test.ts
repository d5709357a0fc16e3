/** Sessions that read their weights as inputs compute the same as those that hold them. */
import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { DeviceWeights } from "../../../src/device/device_weights.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { type GraphSession, Tensor } from "../../../src/device/ort/ort.ts";
import { makeNode, type Node, type Tensor as Constant } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { liftLargeWeights, liftWeights } from "../../../src/graph/rewrite/webgpu_graph.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";
import { MessageWriter } from "../../../src/graph/file/wire.ts";
import { countCalls } from "../../fixtures/engine/count_calls.ts";
import { gpuTest, HAS_F16 } from "../../fixtures/engine/gpu.ts";
import { inMemory } from "../graph/test_decoder.ts";

const [K, N, BLOCK] = [2048, 256, 32];

type FloatType = "float32" | "float16";

/** One product of `x [rows, K]`. */
interface Case {
  readonly node: Node;
  readonly constants: readonly Constant[];
  /** Names of the constants that become inputs. */
  readonly lifted: readonly string[];
}

/** Values between -1 and 1. */
function floats(count: number, dtype: FloatType) {
  const values = Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898));
  return dtype === "float16" ? Float16Array.from(values) : Float32Array.from(values);
}

function bytes(count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, i) => Math.imul(i, 2654435761) >>> 24);
}

function nbits(dtype: FloatType, bits: 4 | 8): Case {
  const attributes = { K, N, bits, block_size: BLOCK };
  const [numValues, numBlocks] = [N * K, N * K / BLOCK];
  return {
    node: makeNode("MatMulNBits", ["x", "b", "scales", "zeros"], ["y"], {
      domain: "com.microsoft",
      attributes,
    }),
    constants: [
      constant("b", [N, K / BLOCK, BLOCK * bits / 8], bytes(numValues * bits / 8)),
      constant("scales", [numBlocks], floats(numBlocks, dtype)),
      // Too small to be worth an input.
      constant("zeros", [numBlocks * bits / 8], bytes(numBlocks * bits / 8)),
    ],
    lifted: ["b", "scales"],
  };
}

const CASES: Readonly<Record<string, (dtype: FloatType) => Case>> = {
  "MatMulNBits of 4 bits": (dtype) => nbits(dtype, 4),
  "MatMulNBits of 8 bits": (dtype) => nbits(dtype, 8),
  "MatMul": (dtype) => ({
    node: makeNode("MatMul", ["x", "b"], ["y"]),
    constants: [constant("b", [K, N], floats(K * N, dtype))],
    lifted: ["b"],
  }),
  "Gemm": (dtype) => ({
    node: makeNode("Gemm", ["x", "b", "c"], ["y"], { attributes: { transB: 1 } }),
    constants: [constant("b", [N, K], floats(N * K, dtype)), constant("c", [N], floats(N, dtype))],
    lifted: ["b"],
  }),
};

async function run(session: GraphSession, numRows: number, dtype: FloatType): Promise<string> {
  const data = floats(numRows * K, dtype) as Float32Array;
  const { y } = await session.run({ x: new Tensor(dtype as "float32", data, [numRows, K]) });
  const { buffer, byteOffset, byteLength } = await y!.getData() as Float32Array;
  y!.dispose();
  return new Uint8Array(buffer, byteOffset, byteLength).toHex();
}

for (const [name, makeCase] of Object.entries(CASES)) {
  for (const dtype of ["float32", "float16"] as const) {
    gpuTest(
      `WebGpuBackend.openModel() computes the same with weights as inputs: ${name} in ${dtype}`,
      async (gpu) => {
        const { node, constants, lifted } = makeCase(dtype);
        const files = inMemory(buildModel({
          nodes: [node],
          inputs: [["x", dtype, ["rows", K]]],
          outputs: [["y", dtype, ["rows", N]]],
          initializers: constants,
        }));
        const model = await readModel(files, "model.onnx");
        const backend = await WebGpuBackend.create(gpu);
        const weights = new DeviceWeights(gpu, files);
        const reading = await backend.openModel(model, files, { weights });
        const holding = await backend.openModel(model, files);
        assert.deepEqual(
          constants.map(({ name }) => name).filter((name) => weights.get(name)),
          lifted,
        );
        assert.deepEqual(reading.inputs, holding.inputs);
        for (const numRows of [1, 5]) {
          assert.equal(await run(reading, numRows, dtype), await run(holding, numRows, dtype));
        }
        await reading.release();
        await holding.release();
        weights.dispose();
      },
      { ignore: dtype === "float16" && !HAS_F16 },
    );
  }
}

Deno.test("liftWeights() skips constants that another operator also reads, and small ones", async () => {
  const files = inMemory(buildModel({
    nodes: [
      makeNode("Gather", ["table", "ids"], ["x"]),
      makeNode("Transpose", ["table"], ["turned"], { attributes: { perm: [1, 0] } }),
      makeNode("MatMul", ["x", "large"], ["h"]),
      makeNode("MatMul", ["h", "small"], ["s"]),
      makeNode("MatMul", ["s", "turned"], ["y"]),
    ],
    inputs: [["ids", "int64", [1, "tokens"]]],
    outputs: [["y", "float32", [1, "tokens", 512]]],
    initializers: [
      constant("table", [512, 256], floats(512 * 256, "float32")),
      constant("large", [256, 32], floats(256 * 32, "float32")),
      constant("small", [32, 255], floats(32 * 255, "float32")),
    ],
  }));
  const { model, weights } = liftWeights(await readModel(files, "model.onnx"));
  assert.deepEqual(weights.map(({ name }) => name), ["large"]);
  assert.deepEqual(model.graph.initializers.map(({ name }) => name), ["table", "small"]);
  assert.deepEqual(model.graph.inputs.map(({ name }) => name), ["ids", "large"]);
});

gpuTest(
  "WebGpuBackend.openModel() reads a large graph's weights from buffers that its session frees",
  async (gpu) => {
    const size = 3000;
    const files = inMemory(buildModel({
      nodes: [makeNode("MatMul", ["x", "large"], ["y"])],
      inputs: [["x", "float32", [1, "rows", size]]],
      outputs: [["y", "float32", [1, "rows", size]]],
      initializers: [constant("large", [size, size], floats(size * size, "float32"))],
    }));
    const model = await readModel(files, "model.onnx");
    const backend = await WebGpuBackend.create(gpu);
    const reading = await backend.openModel(model, files);
    const weights = new DeviceWeights(gpu, files);
    const given = await backend.openModel(model, files, { weights });
    const outputs = await Promise.all([reading, given].map(async (session) => {
      const x = new Tensor("float32", floats(2 * size, "float32") as Float32Array, [1, 2, size]);
      const { y } = await session.run({ x });
      return [...await y!.getData() as Float32Array];
    }));
    assertSameValues(outputs[0]!, outputs[1]!);
    assert.deepEqual(reading.inputs.map(({ name }) => name), ["x"]);
    using destroyed = countCalls(GPUBuffer.prototype, "destroy");
    await given.release();
    const before = destroyed.count;
    await reading.release();
    assert.ok(destroyed.count > before, "the session frees its weights");
    weights.dispose();
    // Nodes with subgraphs may read any constant.
    const branching = { ...model.graph.nodes[0]!, opType: "If", attributes: [branchAttribute()] };
    const graph = { ...model.graph, nodes: [...model.graph.nodes, branching] };
    assert.deepEqual(liftLargeWeights({ ...model, graph }).weights, []);
    assert.deepEqual(liftLargeWeights(model).weights.map(({ name }) => name), ["large"]);
  },
);

/** Makes an attribute that contains a graph. */
function branchAttribute() {
  const message = new MessageWriter().text(1, "then_branch").bytes(6, new Uint8Array(0)).int(20, 5);
  return { name: "then_branch", message: message.finish() };
}
