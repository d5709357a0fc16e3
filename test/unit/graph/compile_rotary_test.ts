/** Rotations in basic operators, and tables of values computed from positions. */
import assert from "node:assert/strict";
import { PositionTables } from "../../../src/program/position_tables.ts";
import { findRotation } from "../../../src/program/rotary.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import type { Segment } from "../../../src/graph/graph_cut.ts";
import { GraphIndex } from "../../../src/graph/graph_index.ts";
import {
  type Graph,
  makeNode,
  type Node,
  readIntAttribute,
  type Tensor,
} from "../../../src/graph/file/proto.ts";
import { constant, ints } from "../../fixtures/graphs/onnx_builder.ts";

const FLOAT32 = 1;

function makeGraph(nodes: readonly Node[], initializers: readonly Tensor[]): Graph {
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

Deno.test("findRotation() finds a rotation of halves, and nothing similar", () => {
  const find = (nodes: readonly Node[], headDim = 8) =>
    findRotation(new GraphIndex(makeGraph(nodes, BOUNDS)), "y", headDim);
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

Deno.test("findRotation() finds halves that are rotated by separate products, and nothing similar", () => {
  const sums = (minuend = ["a", "cos"], addend = ["a", "sin"]) => [
    makeNode("Split", ["x"], ["a", "b"], { attributes: { axis: 3 } }),
    makeNode("Mul", minuend, ["aCos"]),
    makeNode("Mul", ["sin", "b"], ["bSin"]),
    makeNode("Mul", ["b", "cos"], ["bCos"]),
    makeNode("Mul", addend, ["aSin"]),
    makeNode("Sub", ["aCos", "bSin"], ["first"]),
    makeNode("Add", ["bCos", "aSin"], ["second"]),
    makeNode("Concat", ["first", "second"], ["y"], { attributes: { axis: -1 } }),
  ];
  const find = (nodes: readonly Node[]) =>
    findRotation(new GraphIndex(makeGraph(nodes, BOUNDS)), "y", 8);
  const found = { input: "x", cos: "cos", sin: "sin", size: 8, isInterleaved: false };
  assert.deepEqual(find(sums()), found);
  const replace = (type: string, change: (node: Node) => Node) =>
    sums().map((node) => node.opType === type ? change(node) : node);
  const turn = (node: Node) => ({ ...node, inputs: node.inputs.toReversed() });
  assert.deepEqual(find(replace("Add", turn)), found);
  assert.deepEqual(find(replace("Mul", turn)), found);

  assert.equal(find(replace("Sub", turn)), undefined, "the other sign");
  assert.equal(find(replace("Concat", turn)), undefined, "halves that are swapped");
  assert.equal(find(sums(["b", "cos"])), undefined, "one half twice");
  assert.equal(find(sums(["a", "cos"], ["a", "cos"])), undefined, "cosines twice");
  assert.equal(find(sums(["a", "other"])), undefined, "two tables of cosines");
});

Deno.test("findRotation() finds a rotation of a head's first elements", () => {
  const find = (nodes: readonly Node[]) =>
    findRotation(new GraphIndex(makeGraph(nodes, [...BOUNDS, END])), "z", 16);
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

Deno.test("findRotation() finds a rotation of neighbours, and not halves joined in the same way", () => {
  const steps = [ints("one", [1], [1]), ints("two", [2], [1]), ints("last", [-1], [1]), END];
  const find = (nodes: readonly Node[]) =>
    findRotation(new GraphIndex(makeGraph(nodes, [...BOUNDS, ...steps])), "y", 8);
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
  // Joining all odd elements and all even ones is no rotation.
  assert.equal(find(turned(false)), undefined);
});

/** Values along the last axis; several rows only if elements have a separate axis. */
type Rows = readonly (readonly number[])[];

const INTS: Readonly<Record<string, number>> = {
  ...{ 0: 0, 3: 3, 4: 4, 8: 8, axis: 3, wrong: 2 },
  ...{ one: 1, two: 2, last: -1, end: Number.MAX_SAFE_INTEGER },
};
/** Sizes of splits. */
const SIZES: Readonly<Record<string, readonly [number, number]>> = {
  ...{ halves: [4, 4], parts: [8, 4], swapped: [4, 8], uneven: [3, 5] },
};
const isLast = (axis: number | undefined) => axis === -1 || axis === 3;
const ELEMENTWISE: Readonly<Record<string, (a: number, b: number) => number>> = {
  Add: (a, b) => a + b,
  Mul: (a, b) => a * b,
};

function runOne({ opType, inputs, outputs, ...node }: Node, values: Map<string, Rows>): void {
  const [rows, other] = inputs.slice(0, 2).map((name) => values.get(name)) as [Rows, Rows];
  const [starts = 0, ends = 0, axes, steps = 1] = inputs.slice(1).map((name) => INTS[name]);
  const set = (index: number, result: Rows) => values.set(outputs[index]!, result);
  const flat = rows.flat();
  switch (opType) {
    case "Neg":
    case "Abs":
      return void set(0, [flat.map(opType === "Neg" ? (value) => -value : Math.abs)]);
    case "Slice": {
      const taken = flat.slice(starts, ends).filter((_, i) => i % steps === 0);
      return void set(0, [isLast(axes) ? taken : [NaN]]);
    }
    case "Split": {
      const [at, rest] = SIZES[inputs[1] ?? ""] ?? [flat.length / 2, flat.length / 2];
      if (at + rest !== flat.length) flat.fill(NaN);
      set(0, [flat.slice(0, at)]);
      return void set(1, [flat.slice(at)]);
    }
    case "Unsqueeze":
      return void set(0, flat.map((value) => [value]));
    case "Concat": {
      const axis = readIntAttribute({ opType, inputs, outputs, ...node }, "axis");
      const isAlike = isLast(axis) && rows.length === other.length;
      return void set(0, isAlike ? rows.map((row, i) => [...row, ...other[i]!]) : [[NaN]]);
    }
    default: {
      const second = other.flat();
      const isAlike = flat.length === second.length;
      set(0, [isAlike ? flat.map((value, i) => ELEMENTWISE[opType]!(value, second[i]!)) : [NaN]]);
    }
  }
}

/** Computes the result of a rotation that was found. */
function rotate(
  { input, cos, sin, size, isInterleaved }: NonNullable<ReturnType<typeof findRotation>>,
  values: ReadonlyMap<string, Rows>,
): number[] {
  const [x, cosines, sines] = [input, cos, sin].map((name) => values.get(name)!.flat());
  return x!.map((value, i) => {
    if (i >= size) return value;
    const isFirst = isInterleaved ? i % 2 === 0 : i < size / 2;
    const distance = isInterleaved ? 1 : size / 2;
    const turned = isFirst ? -x![i + distance]! : x![i - distance]!;
    return value * cosines![i]! + turned * sines![i]!;
  });
}

/** Yields the graph with each of its inputs, operators and axes replaced, one at a time. */
function* makeVariants(nodes: readonly Node[]): Generator<readonly Node[]> {
  for (const [at, node] of nodes.entries()) {
    const before = nodes.slice(0, at).flatMap(({ outputs }) => outputs);
    const names = ["h", "g", "cos", "sin", ...before];
    for (const [position, name] of node.inputs.entries()) {
      const alike = [INTS, SIZES].find((each) => name in each);
      for (const other of alike ? Object.keys(alike) : names) {
        yield nodes.with(at, { ...node, inputs: node.inputs.with(position, other) });
      }
    }
    for (const [opType, other] of [["Add", "Mul"], ["Mul", "Add"], ["Neg", "Abs"]] as const) {
      if (node.opType === opType) yield nodes.with(at, { ...node, opType: other });
    }
    if (node.opType !== "Concat") continue;
    const attributes = { axis: 2 };
    yield nodes.with(at, makeNode("Concat", node.inputs, node.outputs, { attributes }));
  }
}

Deno.test("findRotation() finds a rotation only if the graph computes it", () => {
  const whole = rotation().map((node) => ({
    ...node,
    inputs: node.inputs.map((name) => name === "x" ? "h" : name),
  }));
  const part = [
    makeNode("Slice", ["h", "0", "8", "axis"], ["x"]),
    makeNode("Slice", ["h", "8", "end", "axis"], ["rest"]),
    ...rotation(),
    makeNode("Concat", ["y", "rest"], ["z"], { attributes: { axis: -1 } }),
  ];
  const splitHalves = whole.flatMap((node) => {
    if (node.opType !== "Slice") return [node];
    return node.outputs[0] === "first"
      ? [makeNode("Split", ["h", "halves"], ["first", "second"], { attributes: { axis: -1 } })]
      : [];
  });
  const splitPart = [
    makeNode("Split", ["h", "parts"], ["x", "rest"], { attributes: { axis: -1 } }),
    ...part.slice(2),
  ];
  const neighbours = [
    makeNode("Mul", ["h", "cos"], ["straight"]),
    makeNode("Slice", ["h", "0", "end", "axis", "two"], ["even"]),
    makeNode("Slice", ["h", "one", "end", "axis", "two"], ["odd"]),
    makeNode("Neg", ["odd"], ["negated"]),
    makeNode("Unsqueeze", ["negated", "last"], ["a"]),
    makeNode("Unsqueeze", ["even", "last"], ["b"]),
    makeNode("Concat", ["a", "b"], ["pairs"], { attributes: { axis: -1 } }),
    makeNode("Mul", ["pairs", "sin"], ["turned"]),
    makeNode("Add", ["straight", "turned"], ["y"]),
  ];
  const constants = [
    ...Object.entries(INTS).map(([name, value]) => ints(name, [value], [1])),
    ...Object.entries(SIZES).map(([name, sizes]) => ints(name, sizes, [2])),
  ];
  const vector = (length: number, seed: number) => [
    Array.from({ length }, (_, i) => Math.sin(seed * (i + 1)) * 2),
  ];
  const forms = [
    ...[whole, splitHalves, neighbours].map((nodes) => ({ nodes, name: "y", headDim: 8 })),
    ...[part, splitPart].map((nodes) => ({ nodes, name: "z", headDim: 12 })),
  ];
  for (const { nodes, name, headDim } of forms) {
    const find = (of: readonly Node[]) =>
      findRotation(new GraphIndex(makeGraph(of, constants)), name, headDim);
    assert.equal(find(nodes)?.input, "h");
    for (const variant of makeVariants(nodes)) {
      const found = find(variant);
      if (found === undefined) continue;
      const values = new Map<string, Rows>([["h", vector(headDim, 1)], ["g", vector(headDim, 2)]]);
      for (const [table, seed] of [["cos", 3], ["sin", 5]] as const) {
        values.set(table, vector(8, seed));
      }
      for (const node of variant) runOne(node, values);
      const wanted = rotate(found, values);
      const computed = values.get(name)!.flat();
      // NaN stands for incompatible shapes: such a graph cannot run.
      if (computed.some(Number.isNaN)) continue;
      const isSame = computed.length === wanted.length &&
        computed.every((value, i) => Math.abs(value - wanted[i]!) < 1e-9);
      assert.ok(isSame, JSON.stringify({ variant, found }));
    }
  }
});

function makeSegment(
  index: number,
  nodes: readonly Node[],
  initializers: readonly Tensor[],
): Segment {
  return {
    ...{ index, inputs: [], outputs: [] },
    model: {
      ...{ irVersion: 8, operatorSets: [{ domain: "", version: 17 }], rest: [] },
      graph: makeGraph(nodes, initializers),
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

Deno.test("PositionTables.getTable() tabulates by position the values that a graph computes from its tokens' positions", async () => {
  const frequencies = constant("frequencies", [1, 3, 1], Float32Array.of(1, 0.1, 0.01));
  const constants = [frequencies, ints("one", [1], [1])];
  const segments = [
    makeSegment(0, [
      ...angles(),
      makeNode("Concat", ["angles", "angles"], ["twice"], { attributes: { axis: -1 } }),
      makeNode("Cos", ["twice"], ["cos"]),
      makeNode("Cos", ["angles"], ["narrow"]),
      makeNode("Mul", ["x", "cos"], ["rotated"]),
    ], constants),
    // The next segment computes the cosines again.
    makeSegment(1, [...angles("/again"), makeNode("Cos", ["angles/again"], ["again"])], constants),
  ];
  const positions = { name: "positions", dtype: "int64", shape: [1, "tokens"] } as const;
  const numPositions = 3000;
  const tables = new PositionTables({ segments, positions }, numPositions);
  assert.deepEqual(["cos", "again", "rotated", "x"].map((name) => tables.has(name)), [
    ...[true, true, false, false],
  ]);
  const table = tables.getTable("cos", 3)!;
  assert.deepEqual(table.shape, [numPositions, 3]);
  const bytes = await readStoredBytes(table, undefined as never);
  const values = new Float32Array(bytes.slice().buffer);
  const tenth = Math.fround(0.1);
  for (const position of [0, 1, 2047, 2048, 2999]) {
    const [first, second] = values.subarray(position * 3);
    assert.equal(first, Math.fround(Math.cos(position)));
    assert.equal(second, Math.fround(Math.cos(Math.fround(position * tenth))));
  }
  // Equal computations share a table. There is no table of another width.
  assert.equal(tables.getTable("again", 3)?.name, tables.getTable("narrow", 3)?.name);
  assert.equal(tables.getTable("cos", 4), undefined);
  assert.equal(tables.getTable("rotated", 3), undefined);
  const sections = { ...positions, shape: [3, 1, "tokens"] } as const;
  assert.equal(
    new PositionTables({ segments, positions: sections }, 8).getTable("cos", 3),
    undefined,
  );
});

Deno.test("PositionTables.getTable() uses rows of tables in the graph's file", async () => {
  const numPositions = 12;
  const stored = (name: string): Tensor => {
    const length = 16 * 3 * 4;
    const compute = (_: readonly Uint8Array[], into: Uint8Array) => {
      const values = Float32Array.from({ length: 16 * 3 }, (_, i) => name === "cos" ? i : -i);
      into.set(new Uint8Array(values.buffer));
    };
    const data = { kind: "computed", sources: [], length, compute } as const;
    return { name, dtype: "float32", shape: [16, 3], data, rest: [] };
  };
  const rows = (table: string) => [
    makeNode("Squeeze", ["positions", "one"], [`${table} numbers`]),
    makeNode("Gather", [table, `${table} numbers`], [`${table} rows`]),
    makeNode("Concat", [`${table} rows`, `${table} rows`], [`${table} twice`], {
      attributes: { axis: -1 },
    }),
  ];
  const segments = [
    makeSegment(0, [...rows("cos"), ...rows("sin")], [
      ...[stored("cos"), stored("sin"), ints("one", [0], [1])],
    ]),
  ];
  const positions = { name: "positions", dtype: "int64", shape: [1, "tokens"] } as const;
  const tables = new PositionTables({ segments, positions }, numPositions);
  for (const [name, sign] of [["cos", 1], ["sin", -1]] as const) {
    const table = tables.getTable(`${name} twice`, 3)!;
    assert.deepEqual(table.shape, [numPositions, 3]);
    const bytes = await readStoredBytes(table, undefined as never);
    const wanted = Array.from({ length: numPositions * 3 }, (_, i) => sign * i);
    assert.deepEqual([...new Float32Array(bytes.slice().buffer)], wanted);
  }
});
