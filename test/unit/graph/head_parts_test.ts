/** Matrices whose outputs are reordered, so that queries, keys and values each are one part of a row. */
import assert from "node:assert/strict";
import { copyWeights } from "../../../src/device/ort/pack_model.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { toValue } from "../../../src/graph/evaluate/value.ts";
import { makeNode, type Node, type Tensor as Constant } from "../../../src/graph/file/proto.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { splitRowsForHeads } from "../../../src/graph/rewrite/head_parts.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { constant, ints } from "../../fixtures/graphs/onnx_builder.ts";
import { openCpuSession } from "./cpu_session.ts";
import { makeSegment, product, VECTOR, WIDTH } from "./row_segment.ts";
import { inMemory } from "./test_decoder.ts";

/** Two heads of four elements. A head's first element is one part, the other three are another. */
const SIZES = [ints("heads", [0, 0, 2, 4]), ints("parts", [1, 3])];
const split = (input: string): readonly Node[] => [
  makeNode("Reshape", [input, "heads"], ["by head"]),
  makeNode("Split", ["by head", "parts"], ["a", "b"], { attributes: { axis: -1 } }),
];
/** The new order of the product's outputs. */
const ORDER = [0, 4, 1, 2, 3, 5, 6, 7];
const numbers = (length: number) => Float32Array.from({ length }, (_, i) => i);

function rewrite(nodes: readonly Node[], constants: readonly Constant[]) {
  const { model } = makeSegment(nodes, [...constants, ...SIZES]);
  const { graph } = splitRowsForHeads(model);
  const makeTensor = (name: string) => graph.initializers.find((each) => each.name === name)!;
  const makeBytes = async (name: string) =>
    (await readStoredBytes(makeTensor(name), undefined as never)).slice();
  const makeFloats = async (name: string) => [...new Float32Array((await makeBytes(name)).buffer)];
  const makeInts = (name: string) => [...toValue(makeTensor(name)).data!];
  return { nodes: graph.nodes, makeBytes, makeFloats, makeInts };
}

Deno.test("splitRowsForHeads() reorders a matrix's outputs and bias by part", async () => {
  const { nodes, makeFloats, makeInts } = rewrite([
    product(),
    makeNode("Add", ["vector", "p"], ["biased"]),
    ...split("biased"),
  ], [
    constant("matrix", [WIDTH, WIDTH], numbers(WIDTH * WIDTH)),
    constant("vector", [WIDTH], numbers(WIDTH)),
  ]);
  assert.deepEqual(nodes.map(({ opType }) => opType), [
    ...["MatMul", "Add", "Split", "Reshape", "Reshape"],
  ]);
  const [multiply, add, parts, first, second] = nodes as [Node, Node, Node, Node, Node];
  const rows = await makeFloats(multiply.inputs[1]!);
  assert.deepEqual(rows.slice(0, WIDTH), ORDER);
  assert.deepEqual(rows.slice(-WIDTH), ORDER.map((output) => WIDTH * (WIDTH - 1) + output));
  assert.deepEqual(await makeFloats(add.inputs[0]!), ORDER);
  assert.deepEqual([parts.inputs[0], makeInts(parts.inputs[1]!)], ["biased", [2, 6]]);
  assert.deepEqual([first.outputs, makeInts(first.inputs[1]!)], [["a"], [1, -1, 2, 1]]);
  assert.deepEqual([second.outputs, makeInts(second.inputs[1]!)], [["b"], [1, -1, 2, 3]]);
});

Deno.test("splitRowsForHeads() reorders the levels and scales of 4-bit weights by part", async () => {
  const attributes = { K: 32, N: WIDTH, bits: 4, block_size: 16 };
  const { nodes, makeFloats, makeBytes } = rewrite([
    makeNode("MatMulNBits", ["x", "levels", "scales"], ["p"], { attributes }),
    ...split("p"),
  ], [
    constant("levels", [WIDTH, 2, 8], new Uint8Array(WIDTH * 16).map((_, i) => Math.floor(i / 16))),
    constant("scales", [WIDTH * 2], numbers(WIDTH * 2)),
  ]);
  const [{ inputs }] = nodes as [Node];
  // A row of weights is 16 bytes, each its number here.
  const levels = [...await makeBytes(inputs[1]!)];
  assert.deepEqual(levels, ORDER.flatMap((row) => new Array(16).fill(row)));
  assert.deepEqual(await makeFloats(inputs[2]!), ORDER.flatMap((row) => [2 * row, 2 * row + 1]));
});

Deno.test("splitRowsForHeads() does not change tensors with other readers", () => {
  const { nodes } = rewrite(
    [product(), ...split("p"), makeNode("Add", ["p", "vector"], ["y"])],
    [constant("matrix", [WIDTH, WIDTH], numbers(WIDTH * WIDTH)), VECTOR],
  );
  assert.deepEqual(nodes.map(({ opType }) => opType), ["MatMul", "Reshape", "Split", "Add"]);
});

/** Queries, keys and values in the orders of some families, as `[1, heads, tokens, 4]`. */
const FAMILIES: Readonly<Record<string, (graph: GraphBuilder, rows: string) => string[]>> = {
  /** Queries, keys and values of each head are neighbours. */
  "GPT-NeoX": (graph, rows) => {
    const heads = graph.add("Reshape", [rows, graph.ints([0, 0, 6, 12])]);
    return [0, 4, 8].map((from) => toHeadMajor(graph, slice(graph, heads, [from, from + 4], 3)));
  },
  /** The queries of each group of heads are followed by the group's key and value. */
  "InternLM 2": (graph, rows) => {
    const groups = graph.add("Reshape", [rows, graph.ints([0, 0, 3, 6, 4])]);
    const queries = graph.add("Reshape", [
      slice(graph, groups, [0, 4], 3),
      graph.ints([0, 0, 12, 4]),
    ]);
    const others = [4, 5].map((at) =>
      graph.add("Gather", [groups, graph.ints([at], [])], { attributes: { axis: 3 } })
    );
    return [queries, ...others].map((heads) => toHeadMajor(graph, heads));
  },
  /** Keys and values repeated for each query they serve. */
  "Falcon": (graph, rows) => {
    const groups = graph.add("Reshape", [rows, graph.ints([0, 0, 3, 6, 4])]);
    const flatten = (part: string) =>
      toHeadMajor(graph, graph.add("Reshape", [part, graph.ints([0, 0, 12, 4])]));
    const repeated = [[4, 5], [5, 6]].map((range) =>
      graph.add("Expand", [slice(graph, groups, range, 3), graph.ints([1, 1, 1, 4, 1])])
    );
    return [slice(graph, groups, [0, 4], 3), ...repeated].map(flatten);
  },
  /** Queries, values and keys of each half of the heads. */
  "CodeGen": (graph, rows) => {
    const halves = graph.add("Reshape", [rows, graph.ints([0, 0, 2, 36])]);
    const parts = ["q", "v", "k"].map((name) => `${name}_half`);
    graph.add("Split", [halves, graph.ints([12, 12, 12])], {
      outputs: parts,
      attributes: { axis: -1 },
    });
    return parts.map((part) =>
      toHeadMajor(graph, graph.add("Reshape", [part, graph.ints([0, 0, 6, 4])]))
    );
  },
};

function slice(graph: GraphBuilder, tensor: string, [from, to]: readonly number[], axis: number) {
  return graph.add("Slice", [tensor, graph.ints([from!]), graph.ints([to!]), graph.ints([axis])]);
}

function toHeadMajor(graph: GraphBuilder, heads: string): string {
  return graph.add("Transpose", [heads], { attributes: { perm: [0, 2, 1, 3] } });
}

for (const [family, divide] of Object.entries(FAMILIES)) {
  Deno.test(`splitRowsForHeads() changes no element of heads in ${family}'s order`, async () => {
    const graph = new GraphBuilder();
    const product = graph.add("MatMul", ["x", graph.weights([8, 72])]);
    const heads = divide(graph, graph.add("Add", [product, graph.weights([72])]));
    const shape = ["batch", "heads", "tokens", 4];
    const bytes = graph.build({
      inputs: [["x", "float32", ["batch", "tokens", 8]]],
      outputs: heads.map((name) => [name, "float32", shape]),
    });
    const files = inMemory(bytes);
    const model = await readModel(files, "model.onnx");
    const changed = splitRowsForHeads(model, new Set([4]));
    const operators = changed.graph.nodes.map(({ opType }) => opType);
    assert.deepEqual(operators.filter((name) => name !== "Reshape" && name !== "Transpose"), [
      ...["MatMul", "Add", "Split"],
    ]);
    const { bytes: written, externalData } = await copyWeights(changed, files);
    const x = new Tensor("float32", Float32Array.from({ length: 40 }, (_, i) => Math.sin(i)), [
      ...[1, 5, 8],
    ]);
    const [want, got] = [await openCpuSession(bytes), await openCpuSession(written, externalData)];
    const [wanted, results] = [await want.run({ x }), await got.run({ x })];
    for (const name of heads) assert.deepEqual(results[name]!.data, wanted[name]!.data, name);
    await want.release();
    await got.release();
  });
}
