/** Expanded weights give the same results as the packed ones in ONNX Runtime. */
import assert from "node:assert/strict";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { expandQuantized, makeConvolutionsPlanar } from "../../../src/graph/rewrite/cpu_graph.ts";
import { openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { makeNode, type ModelProto } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";
import { openCpuSession, withWeightsInside } from "./cpu_session.ts";
import { writeModel } from "../../../src/graph/file/proto_codec.ts";
import { decodeModel } from "../../fixtures/graphs/decode_model.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { gelu } from "../../fixtures/graphs/graph_layers.ts";

const TOKENS = 3;

function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.imul(state, 1664525) + 1013904223 >>> 0;
    return state / 2 ** 32;
  };
}

interface Packed {
  readonly columns: number;
  readonly rows: number;
  readonly blockSize: number;
  readonly hasZeroPoints: boolean;
}

function packedModel({ columns, rows, blockSize, hasZeroPoints }: Packed) {
  const random = randomNumbers(columns + rows);
  const blocks = Math.ceil(columns / blockSize);
  const bytes = (length: number) => Uint8Array.from({ length }, () => random() * 256);
  const scales = Float32Array.from({ length: rows * blocks }, () => random() - 0.5);
  return buildModel({
    nodes: [
      makeNode("MatMulNBits", ["x", "w", "s", ...(hasZeroPoints ? ["z"] : [])], ["y"], {
        domain: "com.microsoft",
        attributes: { K: columns, N: rows, bits: 4, block_size: blockSize },
      }),
    ],
    inputs: [["x", "float32", [1, TOKENS, columns]]],
    outputs: [["y", "float32", [1, TOKENS, rows]]],
    initializers: [
      constant("w", [rows, blocks, blockSize / 2], bytes(rows * blocks * blockSize / 2)),
      constant("s", [rows * blocks], scales),
      ...(hasZeroPoints
        ? [constant("z", [rows * Math.ceil(blocks / 2)], bytes(rows * Math.ceil(blocks / 2)))]
        : []),
    ],
  });
}

/** Reads a model's bytes through a file, like real models. */
async function withModel(
  bytes: Uint8Array,
  use: (model: ModelProto, files: FolderFiles) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeFile(`${folder}/model.onnx`, bytes);
    await using files = new FolderFiles(folder);
    await use(await readModel(files, "model.onnx"), files);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function run(bytes: Uint8Array, columns: number): Promise<Float32Array> {
  const random = randomNumbers(7);
  const x = Float32Array.from({ length: TOKENS * columns }, () => random() - 0.5);
  const session = await openCpuSession(bytes);
  const outputs = await session.run({ x: new Tensor("float32", x, [1, TOKENS, columns]) });
  await session.release();
  return outputs["y"]!.data as Float32Array;
}

for (
  const packed of [
    { columns: 64, rows: 5, blockSize: 32, hasZeroPoints: false },
    { columns: 64, rows: 5, blockSize: 32, hasZeroPoints: true },
    { columns: 96, rows: 7, blockSize: 32, hasZeroPoints: true },
    { columns: 256, rows: 16, blockSize: 128, hasZeroPoints: true },
    { columns: 80, rows: 3, blockSize: 16, hasZeroPoints: false },
  ]
) {
  const { columns, rows, blockSize, hasZeroPoints } = packed;
  const zeroPoints = hasZeroPoints ? "zero points" : "no zero points";
  Deno.test(`expandQuantized() keeps the results of [${columns}, ${rows}] in blocks of ${blockSize} with ${zeroPoints}`, async () => {
    const bytes = packedModel(packed);
    const wanted = await run(bytes, columns);
    await withModel(bytes, async (model, files) => {
      const expanded = expandQuantized(model);
      assert.deepEqual(expanded.graph.nodes.map(({ opType }) => opType), ["MatMul"]);
      const got = await run(await withWeightsInside(expanded, files), columns);
      got.forEach((value, i) => assert.ok(Math.abs(value - wanted[i]!) < 1e-4, `element ${i}`));
    });
  });
}

Deno.test("expandQuantized() expands the table of a GatherBlockQuantized", async () => {
  const [rows, columns, blockSize] = [3, 64, 32];
  const values = Uint8Array.from({ length: rows * columns / 2 }, (_, i) => (i * 37) % 256);
  const scales = Float16Array.from({ length: rows * 2 }, (_, i) => 0.25 * (i + 1));
  const bytes = buildModel({
    nodes: [
      makeNode("GatherBlockQuantized", ["table", "ids", "scales"], ["y"], {
        domain: "com.microsoft",
        attributes: { bits: 4, block_size: blockSize, gather_axis: 0, quantize_axis: 1 },
      }),
    ],
    inputs: [["ids", "int64", [1, 2]]],
    outputs: [["y", "float16", [1, 2, columns]]],
    initializers: [
      constant("table", [rows, columns / 2], values),
      constant("scales", [rows, 2], scales),
    ],
  });
  await withModel(bytes, async (model, files) => {
    const session = await openCpuSession(await withWeightsInside(expandQuantized(model), files));
    const ids = new Tensor("int64", BigInt64Array.of(2n, 0n), [1, 2]);
    const y = (await session.run({ ids }))["y"]!.data as unknown as Float16Array;
    await session.release();
    [2, 0].forEach((row, index) => {
      for (let column = 0; column < columns; column++) {
        const byte = values[(row * columns + column) >> 1]!;
        const value = column % 2 === 0 ? byte & 15 : byte >> 4;
        const wanted = (value - 8) * scales[row * 2 + Math.floor(column / blockSize)]!;
        assert.equal(y[index * columns + column], wanted, `row ${row}, column ${column}`);
      }
    });
  });
});

Deno.test("expandQuantized() does not change weights of 8 bits", async () => {
  await withModel(
    packedModel({ columns: 64, rows: 4, blockSize: 32, hasZeroPoints: false }),
    (model) => {
      const [node] = model.graph.nodes;
      const attributes = { K: 64, N: 4, bits: 8, block_size: 32 };
      const wide = makeNode("MatMulNBits", node!.inputs, node!.outputs, {
        domain: "com.microsoft",
        attributes,
      });
      const other = { ...model, graph: { ...model.graph, nodes: [wide] } };
      assert.equal(expandQuantized(other), other);
      return Promise.resolve();
    },
  );
});

Deno.test("expandQuantized() leaves a model packed if expanded weights would need too much memory", async () => {
  await withModel(
    packedModel({ columns: 64, rows: 4, blockSize: 32, hasZeroPoints: false }),
    (model) => {
      const [node] = model.graph.nodes;
      const [first] = node!.attributes;
      assert.equal(first!.name, "K");
      const huge = makeNode("MatMulNBits", node!.inputs, node!.outputs, {
        domain: "com.microsoft",
        attributes: { K: 65_536, N: 65_536, bits: 4, block_size: 32 },
      });
      const large = { ...model, graph: { ...model.graph, nodes: [huge] } };
      assert.equal(expandQuantized(large), large);
      return Promise.resolve();
    },
  );
});

const [WIDTH, LENGTH] = [32, 37];

/**
 * A residual block of 64 channels with a dilated convolution, an upsampling by two, and a convolution of few channels.
 */
async function buildVocoder(): Promise<ModelProto> {
  const graph = new GraphBuilder();
  const conv = (
    input: string,
    { from, to, dilation }: Record<"from" | "to" | "dilation", number>,
  ) =>
    graph.add("Conv", [input, graph.weights([to, from, 3], 0.2), graph.weights([to], 0.1)], {
      attributes: { kernel_shape: [3], pads: [dilation, dilation], dilations: [dilation] },
    });
  const leaky = (input: string) =>
    graph.add("LeakyRelu", [input], { attributes: { alpha: { float: 0.1 } } });
  const wide = gelu(graph, conv("x", { from: WIDTH, to: 64, dilation: 1 }));
  const sum = graph.add("Add", [wide, conv(leaky(wide), { from: 64, to: 64, dilation: 3 })]);
  const longer = graph.add("ConvTranspose", [leaky(sum), graph.weights([64, 16, 4], 0.2)], {
    attributes: { kernel_shape: [4], strides: [2], pads: [1, 0], output_padding: [1] },
  });
  // The mean is of the 1-D series.
  const mean = graph.add("ReduceMean", [longer], { attributes: { axes: [2] } });
  const narrow = conv(graph.add("Sub", [longer, mean]), { from: 16, to: 16, dilation: 1 });
  graph.add("Tanh", [narrow], { outputs: ["y"] });
  graph.add("Identity", [sum], { outputs: ["sum"] });
  return await decodeModel(graph.build({
    inputs: [["x", "float32", [1, WIDTH, "length"]]],
    outputs: [["y", "float32", [1, 16, "longer"]], ["sum", "float32", [1, 64, "length"]]],
  }));
}

async function runConvolutions(model: ModelProto, runtime: "native" | "web") {
  const session = await openSession(
    writeModel(model),
    runtime === "native" ? { runtime, threads: 1 } : { runtime },
  );
  const x = Float32Array.from({ length: WIDTH * LENGTH }, (_, i) => Math.sin(i * 1.7));
  const outputs = await session.run({ x: new Tensor("float32", x, [1, WIDTH, LENGTH]) });
  await session.release();
  return outputs;
}

/** Ranks of the convolutions' kernels, in order. */
function kernelRanks({ graph }: ModelProto): number[] {
  const ranks = new Map(graph.initializers.map(({ name, shape }) => [name, shape.length]));
  return graph.nodes.filter(({ opType }) => opType.startsWith("Conv"))
    .map(({ inputs }) => ranks.get(inputs[1]!)!);
}

Deno.test("makeConvolutionsPlanar() changes neither what a graph computes nor its shapes", async () => {
  const model = await buildVocoder();
  const planar = makeConvolutionsPlanar(model, { threads: 1 });
  assert.deepEqual(kernelRanks(planar), [4, 4, 4, 3]);
  const before = await runConvolutions(model, "web");
  for (const runtime of ["native", "web"] as const) {
    const after = await runConvolutions(planar, runtime);
    for (const name of ["y", "sum"]) {
      assert.deepEqual(after[name]!.dims, before[name]!.dims);
      const expected = before[name]!.data as Float32Array;
      (after[name]!.data as Float32Array).forEach((value, i) =>
        assert.ok(Math.abs(value - expected[i]!) < 1e-5, `${name}[${i}]: ${value}, ${expected[i]}`)
      );
    }
  }
});

Deno.test("makeConvolutionsPlanar() keeps tensors 2-D between convolutions", async () => {
  const { graph } = makeConvolutionsPlanar(await buildVocoder(), { threads: 1 });
  const reshapes = graph.nodes.filter(({ opType }) => opType === "Reshape").map(({ inputs }) =>
    inputs[0]
  );
  // One for the input, one for the longer series that the mean is of, and one for an output.
  assert.equal(reshapes.length, 3, reshapes.join(", "));
});

Deno.test("makeConvolutionsPlanar() does not change convolutions with too little work for all threads", async () => {
  assert.deepEqual(kernelRanks(makeConvolutionsPlanar(await buildVocoder(), { threads: 2 })), [
    3,
    3,
    4,
    3,
  ]);
});

Deno.test("makeConvolutionsPlanar() returns a graph without convolutions unchanged", async () => {
  const graph = new GraphBuilder();
  graph.add("Relu", ["x"], { outputs: ["y"] });
  const model = await decodeModel(graph.build({
    inputs: [["x", "float32", [1, WIDTH, "length"]]],
    outputs: [["y", "float32", [1, WIDTH, "length"]]],
  }));
  assert.equal(makeConvolutionsPlanar(model, { threads: 1 }), model);
});
