/** Norms that exporters spell out, and what looks like one. */
import assert from "node:assert/strict";
import { findNorm } from "../../../src/onnx/compile/norms.ts";
import { bytesOfStored } from "../../../src/onnx/file/stored_range.ts";
import { GraphIndex } from "../../../src/onnx/graph_index.ts";
import { makeNode, type Node, type Tensor } from "../../../src/onnx/file/proto.ts";
import { constant, ints } from "../../fixtures/onnx_builder.ts";

const WIDTH = 8;
const FLOAT16 = 10;
const FLOAT32 = 1;
const CONSTANTS = [
  constant("gamma", [WIDTH], new Float32Array(WIDTH).fill(2)),
  constant("beta", [WIDTH], new Float32Array(WIDTH)),
  ...([["two", 2], ["one", 1], ["half", 0.5], ["-half", -0.5], ["eps", 0.25]] as const).map((
    [name, value],
  ) => constant(name, [], Float32Array.of(value))),
  ints("last", [-1], [1]),
  ints("first", [1], [1]),
];

function find(nodes: readonly Node[], constants: readonly Tensor[] = CONSTANTS) {
  const index = new GraphIndex({
    ...{ name: "norm", nodes, initializers: constants, inputs: [], outputs: [] },
    ...{ valueInfos: [], rest: [] },
  });
  return findNorm(index, "y");
}

const node = (opType: string, inputs: readonly string[], output: string) =>
  makeNode(opType, inputs, [output]);
const cast = (input: string, to: number, output: string) =>
  makeNode("Cast", [input], [output], { attributes: { to } });
const mean = (input: string, output: string, axes = "last") =>
  node("ReduceMean", [input, axes], output);

/** Nodes from `x` to the mean of its squares and a little more, `v`. */
const variance = (x = "x", axes = "last") => [
  node("Pow", [x, "two"], "p"),
  mean("p", "m", axes),
  node("Add", ["m", "eps"], "v"),
];

Deno.test("findNorm() knows a root mean square however it is spelled", () => {
  const spelled: Readonly<Record<string, readonly Node[]>> = {
    "1 / sqrt": [
      ...variance(),
      node("Sqrt", ["v"], "s"),
      node("Div", ["one", "s"], "r"),
      node("Mul", ["x", "r"], "n"),
      node("Mul", ["n", "gamma"], "y"),
    ],
    "reciprocal, factors first": [
      ...variance(),
      node("Sqrt", ["v"], "s"),
      node("Reciprocal", ["s"], "r"),
      node("Mul", ["r", "x"], "n"),
      node("Mul", ["gamma", "n"], "y"),
    ],
    "power": [
      node("Mul", ["x", "x"], "p"),
      mean("p", "m"),
      node("Add", ["eps", "m"], "v"),
      node("Pow", ["v", "-half"], "r"),
      node("Mul", ["x", "r"], "n"),
      node("Mul", ["n", "gamma"], "y"),
    ],
    "quotient": [
      ...variance(),
      node("Pow", ["v", "half"], "s"),
      node("Div", ["x", "s"], "n"),
      node("Mul", ["n", "gamma"], "y"),
    ],
    "in f32 of f16": [
      cast("x", FLOAT32, "wide"),
      ...variance("wide"),
      node("Sqrt", ["v"], "s"),
      node("Div", ["one", "s"], "r"),
      node("Mul", ["wide", "r"], "n"),
      cast("n", FLOAT16, "narrow"),
      node("Mul", ["gamma", "narrow"], "y"),
    ],
  };
  for (const [name, nodes] of Object.entries(spelled)) {
    const found = find(nodes);
    assert.deepEqual(found?.params, { kind: "rms", epsilon: 0.25, hasBeta: false }, name);
    assert.deepEqual(found.inputs, ["x"], name);
    assert.equal(found.gamma.name, "gamma", name);
  }
});

Deno.test("findNorm() knows factors that 1 is added to", async () => {
  const found = find([
    ...variance(),
    node("Sqrt", ["v"], "s"),
    node("Div", ["x", "s"], "n"),
    node("Add", ["one", "gamma"], "g"),
    node("Mul", ["n", "g"], "y"),
  ]);
  const bytes = await bytesOfStored(found!.gamma, undefined as never);
  assert.deepEqual([...new Float32Array(bytes.slice().buffer)], new Array(WIDTH).fill(3));
});

Deno.test("findNorm() knows a layer norm that is spelled out", () => {
  const nodes = [
    mean("x", "mu"),
    node("Sub", ["x", "mu"], "c"),
    ...variance("c"),
    node("Sqrt", ["v"], "s"),
    node("Div", ["c", "s"], "n"),
    node("Mul", ["n", "gamma"], "g"),
    node("Add", ["g", "beta"], "y"),
  ];
  const found = find(nodes);
  assert.deepEqual(found?.params, { kind: "layer", epsilon: 0.25, hasBeta: true });
  assert.deepEqual([found.inputs, found.gamma.name, found.beta?.name], [["x"], "gamma", "beta"]);
});

Deno.test("findNorm() finds none in what only looks like one", () => {
  const root = [node("Sqrt", ["v"], "s"), node("Div", ["x", "s"], "n")];
  const scaled = node("Mul", ["n", "gamma"], "y");
  const others: Readonly<Record<string, readonly Node[]>> = {
    "another axis": [...variance("x", "first"), ...root, scaled],
    "another tensor's mean square": [...variance("z"), ...root, scaled],
    "no root": [...variance(), node("Div", ["x", "v"], "n"), scaled],
    "a cube": [
      node("Pow", ["x", "eps"], "p"),
      mean("p", "m"),
      node("Add", ["m", "eps"], "v"),
      ...root,
      scaled,
    ],
    "no factors": [...variance(), node("Sqrt", ["v"], "s"), node("Div", ["x", "s"], "y")],
    "a factor for all": [...variance(), ...root, node("Mul", ["n", "two"], "y")],
  };
  for (const [name, nodes] of Object.entries(others)) assert.equal(find(nodes), undefined, name);
  // An offset that is computed is not left out.
  const norm = makeNode("LayerNormalization", ["x", "gamma", "computed"], ["y"]);
  assert.equal(find([norm]), undefined);
});
