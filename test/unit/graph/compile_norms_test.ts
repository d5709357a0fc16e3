/** Norms in basic operators, and similar graphs. */
import assert from "node:assert/strict";
import { findNorm, readSkipBias } from "../../../src/program/norms.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import { findEncoderInputs } from "../../../src/graph/decoder_inputs.ts";
import { GraphIndex } from "../../../src/graph/graph_index.ts";
import { makeValueInfo } from "../../../src/graph/file/proto_codec.ts";
import { Probes } from "../../../src/graph/probes.ts";
import { normByMeanSquare } from "../../../src/graph/rewrite/plain_norms.ts";
import {
  makeNode,
  type Node,
  readIntAttribute,
  type Tensor,
} from "../../../src/graph/file/proto.ts";
import { constant, ints } from "../../fixtures/graphs/onnx_builder.ts";

const WIDTH = 8;
const FLOAT16 = 10;
const FLOAT32 = 1;
const CONSTANTS = [
  constant("gamma", [WIDTH], Float32Array.from({ length: WIDTH }, (_, i) => 1.5 + i / 4)),
  constant("beta", [WIDTH], Float32Array.from({ length: WIDTH }, (_, i) => i / 8 - 0.3)),
  ...([["two", 2], ["one", 1], ["half", 0.5], ["-half", -0.5], ["eps", 0.25]] as const).map((
    [name, value],
  ) => constant(name, [], Float32Array.of(value))),
  constant("single", [1], Float32Array.of(3)),
  ints("last", [-1], [1]),
  ints("first", [1], [1]),
];

function indexOf(nodes: readonly Node[]): GraphIndex {
  return new GraphIndex({
    ...{ name: "norm", nodes, initializers: CONSTANTS, inputs: [], outputs: [] },
    ...{ valueInfos: [], rest: [] },
  });
}

function find(nodes: readonly Node[]): ReturnType<typeof findNorm> {
  return findNorm(indexOf(nodes), "y");
}

const node = (opType: string, inputs: readonly string[], output: string) =>
  makeNode(opType, inputs, [output]);
const cast = (input: string, to: number, output: string) =>
  makeNode("Cast", [input], [output], { attributes: { to } });
const mean = (input: string, output: string, axes = "last") =>
  node("ReduceMean", [input, axes], output);

/** Nodes from `x` to the mean of its squares plus epsilon, `v`. */
const variance = (x = "x", axes = "last") => [
  node("Pow", [x, "two"], "p"),
  mean("p", "m", axes),
  node("Add", ["m", "eps"], "v"),
];

const SPELLED: Readonly<Record<string, readonly Node[]>> = {
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
  "computed in f32 in a graph of f16": [
    cast("x", FLOAT32, "wide"),
    ...variance("wide"),
    node("Sqrt", ["v"], "s"),
    node("Div", ["one", "s"], "r"),
    node("Mul", ["wide", "r"], "n"),
    cast("n", FLOAT16, "narrow"),
    node("Mul", ["gamma", "narrow"], "y"),
  ],
};

const PLUS_ONE = [
  ...variance(),
  node("Sqrt", ["v"], "s"),
  node("Div", ["x", "s"], "n"),
  node("Add", ["one", "gamma"], "g"),
  node("Mul", ["n", "g"], "y"),
];

const LAYER = [
  mean("x", "mu"),
  node("Sub", ["x", "mu"], "c"),
  ...variance("c"),
  node("Sqrt", ["v"], "s"),
  node("Div", ["c", "s"], "n"),
  node("Mul", ["n", "gamma"], "g"),
  node("Add", ["g", "beta"], "y"),
];

Deno.test("findNorm() finds an RMS norm in different spellings", () => {
  for (const [name, nodes] of Object.entries(SPELLED)) {
    const found = find(nodes);
    assert.deepEqual(found?.params, { kind: "rms", epsilon: 0.25, hasBeta: false }, name);
    assert.deepEqual(found.inputs, ["x"], name);
    assert.equal(found.gamma.name, "gamma", name);
  }
});

Deno.test("findNorm() adds 1 to the factors of an RMS norm if the graph does", async () => {
  const found = find(PLUS_ONE);
  assert.deepEqual(await getValues(found!.gamma), [2.5, 2.75, 3, 3.25, 3.5, 3.75, 4, 4.25]);
});

Deno.test("findNorm() finds a layer norm in basic operators", () => {
  const found = find(LAYER);
  assert.deepEqual(found?.params, { kind: "layer", epsilon: 0.25, hasBeta: true });
  assert.deepEqual([found.inputs, found.gamma.name, found.beta?.name], [["x"], "gamma", "beta"]);
});

/** `[rows, columns]`; either is 1 if all are equal. */
type Rows = readonly (readonly number[])[];

const eachPair = (operate: (a: number, b: number) => number) => (a: Rows, b: Rows): Rows =>
  Array.from({ length: Math.max(a.length, b.length) }, (_, row) => {
    const [left, right] = [a[row % a.length]!, b[row % b.length]!];
    return Array.from(
      { length: Math.max(left.length, right.length) },
      (_, column) => operate(left[column % left.length]!, right[column % right.length]!),
    );
  });
const BINARY: Readonly<Record<string, (a: Rows, b: Rows) => Rows>> = {
  Add: eachPair((a, b) => a + b),
  Sub: eachPair((a, b) => a - b),
  Mul: eachPair((a, b) => a * b),
  Div: eachPair((a, b) => a / b),
  Pow: eachPair((a, b) => a ** b),
};
const UNARY: Readonly<Record<string, (a: number) => number>> = {
  Sqrt: Math.sqrt,
  Reciprocal: (a) => 1 / a,
  Cast: (a) => a,
};
const average = (values: readonly number[]) => values.reduce((a, b) => a + b) / values.length;

/** Computes the mean over the columns, or over the rows. */
function reduceMean(rows: Rows, axes: string): Rows {
  if (axes === "last") return rows.map((row) => [average(row)]);
  return [rows[0]!.map((_, column) => average(rows.map((row) => row[column]!)))];
}

async function getValues(tensor: Tensor): Promise<number[]> {
  const bytes = await readStoredBytes(tensor, undefined as never);
  return [...new Float32Array(bytes.slice().buffer)];
}

/** Computes all values of a graph. */
function run(nodes: readonly Node[], given: ReadonlyMap<string, Rows>): Map<string, Rows> {
  const values = new Map(given);
  for (const each of nodes) {
    const { opType, inputs: [left, right], outputs } = each;
    // Means without their axis would be broadcast along another one: NaN marks such a graph as wrong.
    if (readIntAttribute(each, "keepdims") === 0) {
      values.set(outputs[0]!, [[NaN]]);
      continue;
    }
    const rows = values.get(left!)!;
    const result = opType === "ReduceMean"
      ? reduceMean(rows, right!)
      : right === undefined
      ? rows.map((row) => row.map(UNARY[opType]!))
      : BINARY[opType]!(rows, values.get(right)!);
    values.set(outputs[0]!, result);
  }
  return values;
}

/** Computes the result of a norm that was found. */
async function normalize(
  { params: { kind, epsilon }, gamma, beta, inputs }: NonNullable<ReturnType<typeof findNorm>>,
  values: ReadonlyMap<string, Rows>,
): Promise<Rows> {
  const factors = await getValues(gamma);
  const offsets = beta && await getValues(beta);
  const zeros: Rows = [new Array<number>(WIDTH).fill(0)];
  const sum = inputs.map((name) => values.get(name)!).reduce(BINARY["Add"]!, zeros);
  return sum.map((row) => {
    const mean = kind === "layer" ? average(row) : 0;
    const variance = average(row.map((value) => (value - mean) ** 2));
    return row.map((value, i) =>
      (value - mean) / Math.sqrt(variance + epsilon) * factors[i]! + (offsets?.[i] ?? 0)
    );
  });
}

/** Yields the graph with each of its inputs, operators, axes and attributes replaced, one at a time. */
function* makeVariants(nodes: readonly Node[]): Generator<readonly Node[]> {
  const constants = CONSTANTS.map(({ name }) => name).filter((name) => !/last|first/.test(name));
  for (const [at, changed] of nodes.entries()) {
    const { opType, inputs } = changed;
    const names = ["x", "z", ...constants, ...nodes.slice(0, at).map(({ outputs }) => outputs[0]!)];
    for (const position of inputs.keys()) {
      const isAxes = opType === "ReduceMean" && position === 1;
      for (const name of isAxes ? ["last", "first"] : names) {
        yield nodes.with(at, { ...changed, inputs: inputs.with(position, name) });
      }
    }
    if (opType === "ReduceMean") {
      const attributes = { keepdims: 0 };
      yield nodes.with(at, makeNode(opType, inputs, changed.outputs, { attributes }));
    }
    const operators = opType === "ReduceMean" ? {} : inputs.length === 1 ? UNARY : BINARY;
    for (const other of Object.keys(operators)) yield nodes.with(at, { ...changed, opType: other });
  }
}

Deno.test("findNorm() finds a norm only if the graph computes it", async () => {
  const given = new Map<string, Rows>([
    ["x", [[1, -2, 0.5, 3, -0.1, 2.2, -1.4, 0.3], [-1, 0.2, 0.9, -2, 4, 1.1, 0.4, -0.6]]],
    ["z", [[0.3, 1.2, -0.7, 2, 0.8, -1.5, 0.1, 2.5], [2, -0.4, 1.3, 0.6, -1, 0.2, 3.1, 0.7]]],
  ]);
  for (const tensor of CONSTANTS.filter(({ dtype }) => dtype === "float32")) {
    given.set(tensor.name, [await getValues(tensor)]);
  }
  for (const [name, nodes] of Object.entries({ ...SPELLED, PLUS_ONE, LAYER })) {
    assert.ok(find(nodes), name);
    for (const variant of makeVariants(nodes)) {
      const found = find(variant);
      if (found === undefined) continue;
      const values = run(variant, given);
      const wanted = (await normalize(found, values)).flat();
      const computed = values.get("y")!.flat();
      const isSame = computed.length === wanted.length &&
        computed.every((value, i) =>
          Object.is(value, wanted[i]) || Math.abs(value - wanted[i]!) < 1e-4
        );
      assert.ok(isSame, `${name}: ${JSON.stringify(variant)}`);
    }
  }
});

Deno.test("findNorm() accepts norm operators over the last axis, with constant factors", () => {
  const cases = [
    ["LayerNormalization", ["x", "gamma", "beta"], {}, ["layer", 1e-5, "beta", "x"]],
    ["LayerNormalization", ["x", "gamma"], { axis: 2 }, ["layer", 1e-5, undefined, "x"]],
    ["LayerNormalization", ["x", "gamma"], { axis: 1 }, undefined],
    ["LayerNormalization", ["x", "computed"], {}, undefined],
    ["LayerNormalization", ["x", "gamma", "computed"], {}, undefined],
    ["RMSNormalization", ["x", "gamma"], { axis: -1 }, ["rms", 1e-5, undefined, "x"]],
    ["SimplifiedLayerNormalization", ["x", "gamma"], {}, ["rms", 1e-5, undefined, "x"]],
    ["SkipLayerNormalization", ["x", "z", "gamma", "beta", "one"], {}, [
      ...["layer", 1e-5, "beta", "x,z"],
    ]],
    ["SkipSimplifiedLayerNormalization", ["x", "z", "gamma", "beta"], {}, [
      ...["rms", 1e-5, undefined, "x,z"],
    ]],
    ["GroupNormalization", ["x", "gamma", "beta"], {}, undefined],
  ] as const;
  for (const [opType, inputs, attributes, wanted] of cases) {
    const found = find([makeNode(opType, inputs, ["y"], { attributes })]);
    const seen = found && [
      ...[found.params.kind, found.params.epsilon, found.beta?.name, found.inputs.join()],
    ];
    assert.deepEqual(seen, wanted, `${opType} of ${inputs}`);
    assert.equal(found?.params.hasBeta, found && found.beta !== undefined);
  }
});

Deno.test("readSkipBias() returns the bias that a norm of a sum adds to the sum", () => {
  const makeBias = (opType: string, inputs: readonly string[]) => {
    const norm = makeNode(opType, inputs, ["y"]);
    return readSkipBias(indexOf([norm]), norm)?.name;
  };
  assert.equal(makeBias("SkipLayerNormalization", ["x", "z", "gamma", "gamma", "beta"]), "beta");
  assert.equal(makeBias("SkipLayerNormalization", ["x", "z", "gamma", "beta"]), undefined);
  assert.equal(makeBias("SkipSimplifiedLayerNormalization", ["x", "z", "gamma", "beta"]), "beta");
  assert.equal(makeBias("LayerNormalization", ["x", "gamma", "beta", "beta", "beta"]), undefined);
  assert.throws(
    () => makeBias("SkipSimplifiedLayerNormalization", ["x", "z", "gamma", "computed"]),
    /not a constant vector/,
  );
});

Deno.test("normByMeanSquare() follows a root to each node once, however many paths lead there", () => {
  // Each level doubles the number of paths.
  const levels = Array.from({ length: 60 }, (_, level) => [
    cast(`d${level}`, FLOAT32, `a${level}`),
    node("Reciprocal", [`d${level}`], `b${level}`),
    node("Div", [`a${level}`, `b${level}`], `d${level + 1}`),
  ]);
  const root = [...variance(), node("Sqrt", ["v"], "d0"), node("Div", ["x", "d0"], "n")];
  const bare = indexOf([...root, ...levels.flat()]).graph;
  const tokens = makeValueInfo("input_ids", "int64", [1, "tokens"]);
  const index = new GraphIndex({ ...bare, inputs: [tokens] });
  const { nodes } = normByMeanSquare(new Probes(index, findEncoderInputs(index, 0)));
  assert.equal(nodes.length, bare.nodes.length);
});
