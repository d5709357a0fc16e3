/** Expanded weights give what ONNX Runtime gives for the packed ones. */
import assert from "node:assert/strict";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { expandQuantized } from "../../../src/graph/rewrite/cpu_graph.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { makeNode, type ModelProto } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";
import { openCpuSession, withWeightsInside } from "./cpu_session.ts";

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

/** Reads a model's bytes by way of a file, as models are. */
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
  Deno.test(`expandQuantized() keeps [${columns}, ${rows}] in blocks of ${blockSize} with ${zeroPoints}`, async () => {
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

Deno.test("expandQuantized() makes a table of a GatherBlockQuantized", async () => {
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

Deno.test("expandQuantized() leaves other widths than 4 bits as they are", async () => {
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

Deno.test("expandQuantized() leaves a model packed that would take too much memory", async () => {
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
