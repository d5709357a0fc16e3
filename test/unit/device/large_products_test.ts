/** Products in parts equal the whole products. */
import assert from "node:assert/strict";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import type { GraphCut, Segment } from "../../../src/graph/graph_cut.ts";
import type { ModelFiles } from "../../../src/graph/file/external_data.ts";
import { countStoredBytes } from "../../../src/graph/file/tensor.ts";
import {
  divideLargeProducts,
  padProducts,
  readTiedTable,
} from "../../../src/graph/rewrite/fit_products.ts";
import { type GraphSession, Tensor } from "../../../src/device/ort/ort.ts";
import {
  makeNode,
  type ModelProto,
  type Node,
  type Tensor as Constant,
} from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { assertClose, assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { inMemory } from "../graph/test_decoder.ts";

const [K, N, BLOCK] = [128, 1000, 32];

interface Case {
  readonly nodes: readonly Node[];
  readonly constants: readonly Constant[];
}

function floats(count: number, seed = 1): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => Math.sin((i + seed) * 12.9898));
}

function bytes(count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, i) => Math.imul(i, 2654435761) >>> 24);
}

function nbits(bits: 4 | 8): Case {
  const inputs = ["x", "b", "scales", "zeros", "", "bias"];
  const blocks = K / BLOCK;
  return {
    nodes: [makeNode("MatMulNBits", inputs, ["y"], {
      domain: "com.microsoft",
      attributes: { K, N, bits, block_size: BLOCK },
    })],
    constants: [
      constant("b", [N, blocks, BLOCK * bits / 8], bytes(N * K * bits / 8)),
      constant("scales", [N * blocks], floats(N * blocks)),
      constant("zeros", [N * blocks * bits / 8], bytes(N * blocks * bits / 8)),
      constant("bias", [N], floats(N)),
    ],
  };
}

const CASES: Readonly<Record<string, Case>> = {
  "MatMulNBits of 4 bits": nbits(4),
  "MatMulNBits of 8 bits": nbits(8),
  "MatMul": {
    nodes: [makeNode("MatMul", ["x", "b"], ["y"])],
    constants: [constant("b", [K, N], floats(N * K))],
  },
  "Gemm": {
    nodes: [
      makeNode("Squeeze", ["x", "first"], ["flat"]),
      makeNode("Gemm", ["flat", "b", "bias"], ["rows"], { attributes: { transB: 1 } }),
      makeNode("Unsqueeze", ["rows", "first"], ["y"]),
    ],
    constants: [
      constant("b", [N, K], floats(N * K)),
      constant("bias", [N], floats(N)),
      constant("first", [1], BigInt64Array.of(0n)),
    ],
  },
};

async function makeModel(
  { nodes, constants }: Case,
): Promise<{ model: ModelProto; files: ModelFiles }> {
  const files = inMemory(buildModel({
    nodes,
    inputs: [["x", "float32", [1, "rows", K]]],
    outputs: [["y", "float32", [1, "rows", N]]],
    initializers: constants,
  }));
  return { files, model: await readModel(files, "model.onnx") };
}

function makeCut(model: ModelProto): GraphCut {
  const output = { name: "y", dtype: "float32", shape: [1, "rows", N], width: N } as const;
  const segment: Segment = { index: 0, model, inputs: [], outputs: [output] };
  return { segments: [segment], output } as unknown as GraphCut;
}

async function run(session: GraphSession, numRows: number): Promise<Float32Array> {
  const x = new Tensor("float32", floats(numRows * K, 7), [1, numRows, K]);
  const { y } = await session.run({ x });
  assert.deepEqual(y!.dims, [1, numRows, N]);
  const values = (await y!.getData() as Float32Array).slice();
  y!.dispose();
  return values;
}

for (const [name, form] of Object.entries(CASES)) {
  gpuTest(`divideLargeProducts() does not change the results of ${name}`, async (gpu) => {
    const { model, files } = await makeModel(form);
    const total = Math.max(...model.graph.initializers.map(countStoredBytes));
    const maxBytes = Math.ceil(total / 3);
    const [segment] = divideLargeProducts(makeCut(model), maxBytes).segments;
    const { nodes, initializers } = segment!.model.graph;
    assert.ok(nodes.filter(({ opType }) => opType === "Concat").length === 1);
    assert.ok(Math.max(...initializers.map(countStoredBytes)) <= maxBytes);
    // No constant is duplicated or missing.
    const sizes = (tensors: readonly Constant[]) =>
      tensors.reduce((sum, tensor) => sum + countStoredBytes(tensor), 0);
    assert.equal(sizes(initializers), sizes(model.graph.initializers));

    const backend = await WebGpuBackend.create(gpu);
    const whole = await backend.openModel(model, files);
    const divided = await backend.openModel(segment!.model, files);
    for (const numRows of [1, 5]) {
      assertSameValues(await run(divided, numRows), await run(whole, numRows));
    }
    await whole.release();
    await divided.release();
  });
}

gpuTest(
  "readTiedTable() lets a product read the table itself instead of a transposed copy",
  async (gpu) => {
    const { model, files } = await makeModel({
      nodes: [
        makeNode("Transpose", ["table"], ["turned"], { attributes: { perm: [1, 0] } }),
        makeNode("MatMul", ["x", "turned"], ["product"]),
        makeNode("Mul", ["product", "scale"], ["y"]),
      ],
      constants: [
        constant("table", [N, K], floats(N * K)),
        constant("scale", [1], Float32Array.of(0.5)),
      ],
    });
    const [segment] = readTiedTable(makeCut(model)).segments;
    const { nodes, initializers } = segment!.model.graph;
    assert.deepEqual(nodes.map(({ opType }) => opType), ["Reshape", "Gemm", "Reshape", "Mul"]);
    assert.equal(nodes[1]!.inputs[1], "table");
    assert.equal(initializers.filter(({ name }) => name === "table").length, 1);
    const backend = await WebGpuBackend.create(gpu);
    const theirs = await backend.openModel(model, files);
    const ours = await backend.openModel(segment!.model, files);
    for (const numRows of [1, 5]) {
      assertClose(await run(ours, numRows), await run(theirs, numRows), { abs: 1e-5, rel: 1e-5 });
    }
    await theirs.release();
    await ours.release();
  },
);

gpuTest(
  "padProducts() does not change results with widths that are not a multiple of 4",
  async (gpu) => {
    const width = N - 3;
    const files = inMemory(buildModel({
      nodes: [makeNode("MatMul", ["x", "b"], ["y"])],
      inputs: [["x", "float32", [1, "rows", K]]],
      outputs: [["y", "float32", [1, "rows", width]]],
      initializers: [constant("b", [K, width], floats(width * K))],
    }));
    const model = await readModel(files, "model.onnx");
    const wide = padProducts(model);
    const { nodes, initializers } = wide.graph;
    assert.deepEqual(nodes.map(({ opType }) => opType), ["MatMul", "Split"]);
    assert.deepEqual(initializers[0]!.shape, [K, N]);
    const backend = await WebGpuBackend.create(gpu);
    const whole = await backend.openModel(model, files);
    const padded = await backend.openModel(wide, files);
    const x = new Tensor("float32", floats(3 * K, 7), [1, 3, K]);
    const [want, got] = await Promise.all([whole, padded].map(async (session) => {
      const { y } = await session.run({ x });
      return await y!.getData() as Float32Array;
    }));
    assertClose(got!, want!, { abs: 1e-5, rel: 1e-5 });
    await whole.release();
    await padded.release();
    // A width that is a multiple of 4 is not padded.
    const { model: even } = await makeModel(CASES["MatMul"]!);
    assert.equal(padProducts(even), even);
  },
);

Deno.test("padProducts() pads weights that two products share once", async () => {
  const width = N - 3;
  const { model } = await makeModel({
    nodes: ["y", "z"].map((output) =>
      makeNode("MatMulNBits", ["x", "b", "scales"], [output], {
        domain: "com.microsoft",
        attributes: { K, N: width, bits: 4, block_size: BLOCK },
      })
    ),
    constants: [
      constant("b", [width, K / BLOCK, BLOCK / 2], bytes(width * K / 2)),
      constant("scales", [width * K / BLOCK], floats(width * K / BLOCK)),
    ],
  });
  const { nodes, initializers } = padProducts(model, "MatMulNBits").graph;
  assert.equal(nodes.filter(({ opType }) => opType === "Split").length, 2);
  const names = initializers.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
});

Deno.test("readTiedTable() does not change a table that is not transposed, nor divideLargeProducts() a product whose parts exceed the limit", async () => {
  const table = constant("table", [K, N], floats(K * N));
  const { model } = await makeModel({
    nodes: [makeNode("MatMul", ["x", "table"], ["y"])],
    constants: [table],
  });
  const cut = makeCut(model);
  assert.equal(readTiedTable(cut), cut);
  assert.equal(divideLargeProducts(cut, 1024).segments[0], cut.segments[0]);
});
