import assert from "node:assert/strict";
import { mergeProducts } from "../../../src/program/merge_products.ts";
import { toValue } from "../../../src/graph/evaluate/value.ts";
import { makeNode, type Node } from "../../../src/graph/file/proto.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import { slicesToSplits } from "../../../src/program/adapt_cut.ts";
import { constant, ints } from "../../fixtures/graphs/onnx_builder.ts";
import { makeSegment, MATRIX, product, VECTOR, WIDTH } from "./row_segment.ts";

Deno.test("slicesToSplits() replaces slices that cover a product by one split", () => {
  const bounds = [0, 2, 8].map((value) => ints(`${value}`, [value], [1]));
  const rest = [...bounds, ints("end", [Number.MAX_SAFE_INTEGER], [1]), ints("axis", [2], [1])];
  const slice = (from: string, to: string, output: string) =>
    makeNode("Slice", ["p", from, to, "axis"], [output]);
  const rewrite = (...slices: readonly Node[]) =>
    slicesToSplits(makeSegment([product(), ...slices], [MATRIX, ...rest]).model).graph;
  const { nodes, initializers } = rewrite(slice("2", "end", "b"), slice("0", "2", "a"));
  assert.deepEqual(nodes.map(({ opType }) => opType), ["MatMul", "Split"]);
  assert.deepEqual(nodes[1]!.outputs, ["a", "b"]);
  const sizes = initializers.find(({ name }) => name === nodes[1]!.inputs[1]);
  assert.deepEqual([...toValue(sizes!).data!], [2, 6]);
  // A part is missing, or duplicated.
  for (const to of ["2", "8"]) {
    const left = rewrite(slice("0", to, "a"), slice("0", "2", "c"));
    assert.deepEqual(left.nodes.map(({ opType }) => opType), ["MatMul", "Slice", "Slice"]);
  }
});

Deno.test("mergeProducts() joins products of the same rows, with their vectors", async () => {
  const numbers = (length: number, from: number) =>
    Float32Array.from({ length }, (_, i) => from + i);
  const second = constant("second", [WIDTH, 4], numbers(WIDTH * 4, 100));
  const first = constant("matrix", [WIDTH, WIDTH], numbers(WIDTH * WIDTH, 0));
  const { model } = makeSegment([
    product("x", "a"),
    makeNode("Add", ["a", "vector"], ["biased a"]),
    product("x", "b", "second"),
    makeNode("Add", ["b", "short"], ["biased b"]),
    product("r", "c", "third"),
  ], [first, second, VECTOR, constant("short", [4], numbers(4, 7)), { ...MATRIX, name: "third" }]);
  const { graph } = mergeProducts(model, { maxBytes: Infinity, outputsMultiple: 4 });
  assert.deepEqual(graph.nodes.map(({ opType }) => opType), ["MatMul", "Add", "Split", "MatMul"]);
  assert.deepEqual(graph.nodes[2]!.outputs, ["biased a", "biased b"]);
  const floats = async (name: string) => {
    const tensor = graph.initializers.find((each) => each.name === name)!;
    const bytes = await readStoredBytes(tensor, undefined as never);
    return { shape: tensor.shape, values: [...new Float32Array(bytes.buffer)] };
  };
  const joined = await floats(graph.nodes[0]!.inputs[1]!);
  assert.deepEqual(joined.shape, [WIDTH, WIDTH + 4]);
  assert.deepEqual(joined.values.slice(0, 14), [0, 1, 2, 3, 4, 5, 6, 7, 100, 101, 102, 103, 8, 9]);
  const vector = await floats(graph.nodes[1]!.inputs.find((name) => name.endsWith("bias"))!);
  assert.deepEqual(vector.values, [...new Float32Array(WIDTH), 7, 8, 9, 10]);
  // Products that would exceed a buffer are not merged.
  assert.equal(mergeProducts(model, { maxBytes: 100, outputsMultiple: 4 }), model);
  // Neither are products whose number of outputs is not a multiple of `outputsMultiple`.
  assert.equal(mergeProducts(model, { maxBytes: Infinity, outputsMultiple: 8 }), model);
});
