import assert from "node:assert/strict";
import { toValue } from "../../../src/graph/evaluate/value.ts";
import { makeNode, type Node, type Tensor } from "../../../src/graph/file/proto.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import { splitRowsForHeads } from "../../../src/graph/rewrite/head_parts.ts";
import { constant, ints } from "../../fixtures/graphs/onnx_builder.ts";
import { makeSegment, product, VECTOR, WIDTH } from "./row_segment.ts";

/** Two heads of four elements, of which one is a head's first part. */
const SIZES = [ints("heads", [0, 0, 2, 4]), ints("parts", [1, 3])];
const split = (input: string): readonly Node[] => [
  makeNode("Reshape", [input, "heads"], ["by head"]),
  makeNode("Split", ["by head", "parts"], ["a", "b"], { attributes: { axis: -1 } }),
];
/** Outputs of the product as they come then. */
const ORDER = [0, 4, 1, 2, 3, 5, 6, 7];
const numbers = (length: number) => Float32Array.from({ length }, (_, i) => i);

function rewrite(nodes: readonly Node[], constants: readonly Tensor[]) {
  const { model } = makeSegment(nodes, [...constants, ...SIZES]);
  const { graph } = splitRowsForHeads(model);
  const makeTensor = (name: string) => graph.initializers.find((each) => each.name === name)!;
  const makeFloats = async (name: string) => [
    ...new Float32Array(
      (await readStoredBytes(makeTensor(name), undefined as never)).slice().buffer,
    ),
  ];
  const makeInts = (name: string) => [...toValue(makeTensor(name)).data!];
  return { nodes: graph.nodes, makeFloats, makeInts };
}

Deno.test("splitRowsForHeads() has a matrix's outputs in the order of the parts, with their vector", async () => {
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
  assert.deepEqual([first.outputs, makeInts(first.inputs[1]!)], [["a"], [0, 0, 2, 1]]);
  assert.deepEqual([second.outputs, makeInts(second.inputs[1]!)], [["b"], [0, 0, 2, 3]]);
});

Deno.test("splitRowsForHeads() moves rows of 4-bit weights with their scales", async () => {
  const attributes = { K: 32, N: WIDTH, bits: 4, block_size: 16 };
  const { nodes, makeFloats } = rewrite([
    makeNode("MatMulNBits", ["x", "levels", "scales"], ["p"], { attributes }),
    ...split("p"),
  ], [
    constant("levels", [WIDTH, 2, 8], new Uint8Array(WIDTH * 16).map((_, i) => Math.floor(i / 16))),
    constant("scales", [WIDTH * 2], numbers(WIDTH * 2)),
  ]);
  const [{ inputs }] = nodes as [Node];
  assert.deepEqual(await makeFloats(inputs[2]!), ORDER.flatMap((row) => [2 * row, 2 * row + 1]));
});

Deno.test("splitRowsForHeads() leaves what others read as it is", () => {
  const { nodes } = rewrite(
    [product(), ...split("p"), makeNode("Add", ["p", "vector"], ["y"])],
    [constant("matrix", [WIDTH, WIDTH], numbers(WIDTH * WIDTH)), VECTOR],
  );
  assert.deepEqual(nodes.map(({ opType }) => opType), ["MatMul", "Reshape", "Split", "Add"]);
});
