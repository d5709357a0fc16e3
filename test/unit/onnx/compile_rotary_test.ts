/** Rotations that exporters spell out, and tables of what is computed from positions. */
import assert from "node:assert/strict";
import { PositionTables } from "../../../src/onnx/compile/position_tables.ts";
import { findRotation } from "../../../src/onnx/compile/rotary.ts";
import { bytesOfStored } from "../../../src/onnx/file/stored_range.ts";
import type { Segment } from "../../../src/onnx/graph_cut.ts";
import { GraphIndex } from "../../../src/onnx/graph_index.ts";
import { type Graph, makeNode, type Node, type Tensor } from "../../../src/onnx/file/proto.ts";
import { constant, ints } from "../../fixtures/onnx_builder.ts";

const FLOAT32 = 1;

function graphOf(nodes: readonly Node[], initializers: readonly Tensor[]): Graph {
  return {
    ...{ name: "graph", nodes, initializers, inputs: [], outputs: [] },
    ...{ valueInfos: [], rest: [] },
  };
}

const BOUNDS = [
  ...([["0", 0], ["4", 4], ["3", 3], ["8", 8], ["axis", 3], ["wrong", 2]] as const),
].map(([name, value]) => ints(name, [value], [1]));

const END = ints("end", [Number.MAX_SAFE_INTEGER], [1]);

/** Nodes of `x * cos + concat(-second half, first half) * sin`. */
function rotation({ at = "4", axis = "axis", concat = -1 } = {}): Node[] {
  return [
    makeNode("Mul", ["x", "cos"], ["straight"]),
    makeNode("Slice", ["x", "0", at, axis], ["first"]),
    makeNode("Slice", ["x", at, "8", axis], ["second"]),
    makeNode("Neg", ["second"], ["negated"]),
    makeNode("Concat", ["negated", "first"], ["half"], { attributes: { axis: concat } }),
    makeNode("Mul", ["half", "sin"], ["turned"]),
    makeNode("Add", ["straight", "turned"], ["y"]),
  ];
}

Deno.test("findRotation() knows a rotation of halves, and nothing like it", () => {
  const find = (nodes: readonly Node[], headDim = 8) =>
    findRotation(new GraphIndex(graphOf(nodes, BOUNDS)), "y", headDim);
  const found = { input: "x", cos: "cos", sin: "sin", size: 8, isInterleaved: false };
  assert.deepEqual(find(rotation()), found);
  const swapped = rotation().map((node) =>
    ["Mul", "Add"].includes(node.opType) ? { ...node, inputs: node.inputs.toReversed() } : node
  );
  assert.deepEqual(find(swapped), found);
  const split = rotation().flatMap((node) => {
    if (node.opType !== "Slice") return [node];
    return node.outputs[0] === "first" ? [makeNode("Split", ["x"], ["first", "second"])] : [];
  });
  assert.deepEqual(find(split), found);
  const own = makeNode("RotaryEmbedding", ["x", "cos", "sin"], ["y"]);
  assert.deepEqual(find([own]), found);

  assert.equal(find(rotation(), 16), undefined, "part of a head");
  assert.equal(find(rotation({ at: "3" })), undefined, "uneven halves");
  assert.equal(find(rotation({ axis: "wrong" })), undefined, "another axis");
  assert.equal(find(rotation({ concat: 2 })), undefined, "joined along another axis");
  const same = rotation().map((node) => node.opType === "Neg" ? { ...node, opType: "Abs" } : node);
  assert.equal(find(same), undefined, "no minus");
});

Deno.test("findRotation() knows a rotation of a head's first elements", () => {
  const find = (nodes: readonly Node[]) =>
    findRotation(new GraphIndex(graphOf(nodes, [...BOUNDS, END])), "z", 16);
  const part = (rest = "8") => [
    makeNode("Slice", ["h", "0", "8", "axis"], ["x"]),
    makeNode("Slice", ["h", rest, "end", "axis"], ["rest"]),
    ...rotation(),
    makeNode("Concat", ["y", "rest"], ["z"], { attributes: { axis: -1 } }),
  ];
  const found = { input: "h", cos: "cos", sin: "sin", size: 8, isInterleaved: false };
  assert.deepEqual(find(part()), found);
  assert.equal(find(part("4")), undefined, "parts that overlap");
  const ofOther = part().map((node) =>
    node.outputs[0] === "rest" ? { ...node, inputs: ["g", ...node.inputs.slice(1)] } : node
  );
  assert.equal(find(ofOther), undefined, "parts of two tensors");
});

Deno.test("findRotation() knows a rotation of neighbours, and halves that are joined in its way", () => {
  const steps = [ints("one", [1], [1]), ints("two", [2], [1]), ints("last", [-1], [1]), END];
  const find = (nodes: readonly Node[]) =>
    findRotation(new GraphIndex(graphOf(nodes, [...BOUNDS, ...steps])), "y", 8);
  const turned = (isStacked: boolean) => [
    makeNode("Mul", ["x", "cos"], ["straight"]),
    makeNode("Slice", ["x", "0", "end", "axis", "two"], ["even"]),
    makeNode("Slice", ["x", "one", "end", "axis", "two"], ["odd"]),
    makeNode("Neg", ["odd"], ["negated"]),
    ...isStacked
      ? [
        makeNode("Unsqueeze", ["negated", "last"], ["a"]),
        makeNode("Unsqueeze", ["even", "last"], ["b"]),
      ]
      : [],
    makeNode("Concat", isStacked ? ["a", "b"] : ["negated", "even"], ["pairs"], {
      attributes: { axis: -1 },
    }),
    makeNode("Mul", ["pairs", "sin"], ["turned"]),
    makeNode("Add", ["straight", "turned"], ["y"]),
  ];
  const found = { input: "x", cos: "cos", sin: "sin", size: 8, isInterleaved: true };
  assert.deepEqual(find(turned(true)), found);
  // All odd elements before all even ones turn nothing.
  assert.equal(find(turned(false)), undefined);
});

function segmentOf(
  index: number,
  nodes: readonly Node[],
  initializers: readonly Tensor[],
): Segment {
  return {
    ...{ index, weightBytes: 0, inputs: [], outputs: [] },
    model: {
      ...{ irVersion: 8, operatorSets: [{ domain: "", version: 17 }], rest: [] },
      graph: graphOf(nodes, initializers),
    },
  };
}

const angles = (suffix = "") => [
  makeNode("Unsqueeze", ["positions", "one"], [`row${suffix}`]),
  makeNode("Cast", [`row${suffix}`], [`float${suffix}`], { attributes: { to: FLOAT32 } }),
  makeNode("MatMul", ["frequencies", `float${suffix}`], [`columns${suffix}`]),
  makeNode("Transpose", [`columns${suffix}`], [`angles${suffix}`], {
    attributes: { perm: [0, 2, 1] },
  }),
];

Deno.test("PositionTables.tableOf() computes by position what a graph computes of its tokens'", async () => {
  const frequencies = constant("frequencies", [1, 3, 1], Float32Array.of(1, 0.1, 0.01));
  const constants = [frequencies, ints("one", [1], [1])];
  const segments = [
    segmentOf(0, [
      ...angles(),
      makeNode("Concat", ["angles", "angles"], ["twice"], { attributes: { axis: -1 } }),
      makeNode("Cos", ["twice"], ["cos"]),
      makeNode("Cos", ["angles"], ["narrow"]),
      makeNode("Mul", ["x", "cos"], ["rotated"]),
    ], constants),
    // The next segment computes it again.
    segmentOf(1, [...angles("/again"), makeNode("Cos", ["angles/again"], ["again"])], constants),
  ];
  const positions = { name: "positions", dtype: "int64", shape: [1, "tokens"] } as const;
  const numPositions = 3000;
  const tables = new PositionTables({ segments, positions }, numPositions);
  assert.deepEqual(["cos", "again", "rotated", "x"].map((name) => tables.has(name)), [
    ...[true, true, false, false],
  ]);
  const table = tables.tableOf("cos", 3)!;
  assert.deepEqual(table.shape, [numPositions, 3]);
  const bytes = await bytesOfStored(table, undefined as never);
  const values = new Float32Array(bytes.slice().buffer);
  const tenth = Math.fround(0.1);
  for (const position of [0, 1, 2047, 2048, 2999]) {
    const [first, second] = values.subarray(position * 3);
    assert.equal(first, Math.fround(Math.cos(position)));
    assert.equal(second, Math.fround(Math.cos(Math.fround(position * tenth))));
  }
  // What is computed alike has one table; another width is none.
  assert.equal(tables.tableOf("again", 3)?.name, tables.tableOf("narrow", 3)?.name);
  assert.equal(tables.tableOf("cos", 4), undefined);
  assert.equal(tables.tableOf("rotated", 3), undefined);
  const sections = { ...positions, shape: [3, 1, "tokens"] } as const;
  assert.equal(
    new PositionTables({ segments, positions: sections }, 8).tableOf("cos", 3),
    undefined,
  );
});
