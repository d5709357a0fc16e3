import assert from "node:assert/strict";
import { activate } from "../../kernels/references/activate.ts";
import { findActivation } from "../../../src/program/activations.ts";
import { makeNode, type Node } from "../../../src/graph/file/proto.ts";
import { GraphIndex } from "../../../src/graph/graph_index.ts";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";

/** Operators of one or two numbers. */
const OPERATORS: Readonly<Record<string, (a: number, b: number) => number>> = {
  Add: (a, b) => a + b,
  Div: (a, b) => a / b,
  Erf: (a) => 2 * activate("gelu", a * Math.SQRT2) / (a * Math.SQRT2) - 1,
  Mul: (a, b) => a * b,
  Pow: (a, b) => a ** b,
  Relu: (a) => Math.max(a, 0),
  Sigmoid: (a) => 1 / (1 + Math.exp(-a)),
  Tanh: (a) => Math.tanh(a),
};
const CONSTANTS: Readonly<Record<string, number>> = {
  one: 1,
  half: 0.5,
  two: 2,
  three: 3,
  root: Math.SQRT2,
  inverseRoot: Math.SQRT1_2,
  cubic: 0.044715,
  inner: Math.sqrt(2 / Math.PI),
  quick: 1.702,
};

type Step = readonly [opType: string, inputs: readonly string[], output: string];

/** Patterns from `x` to `y`. */
const PATTERNS: readonly (readonly Step[])[] = [
  [["Sigmoid", ["x"], "s"], ["Mul", ["x", "s"], "y"]],
  [["Relu", ["x"], "s"], ["Mul", ["s", "s"], "y"]],
  [["Relu", ["x"], "s"], ["Pow", ["s", "two"], "y"]],
  [["Mul", ["x", "quick"], "q"], ["Sigmoid", ["q"], "s"], ["Mul", ["s", "x"], "y"]],
  [
    ["Div", ["x", "root"], "d"],
    ["Erf", ["d"], "e"],
    ["Add", ["e", "one"], "f"],
    ["Mul", ["x", "f"], "m"],
    ["Mul", ["m", "half"], "y"],
  ],
  [
    ["Mul", ["x", "inverseRoot"], "d"],
    ["Erf", ["d"], "e"],
    ["Add", ["one", "e"], "f"],
    ["Div", ["x", "two"], "h"],
    ["Mul", ["f", "h"], "y"],
  ],
  [
    ["Pow", ["x", "three"], "c"],
    ["Mul", ["c", "cubic"], "f"],
    ["Add", ["x", "f"], "i"],
    ["Mul", ["i", "inner"], "j"],
    ["Tanh", ["j"], "t"],
    ["Add", ["t", "one"], "o"],
    ["Mul", ["x", "half"], "h"],
    ["Mul", ["h", "o"], "y"],
  ],
  [
    ["Mul", ["x", "x"], "b"],
    ["Mul", ["b", "x"], "c"],
    ["Mul", ["cubic", "c"], "f"],
    ["Add", ["f", "x"], "i"],
    ["Mul", ["inner", "i"], "j"],
    ["Tanh", ["j"], "t"],
    ["Add", ["one", "t"], "o"],
    ["Mul", ["o", "x"], "h"],
    ["Mul", ["half", "h"], "y"],
  ],
  // BLOOM
  [
    ["Mul", ["x", "half"], "h"],
    ["Mul", ["x", "inner"], "j"],
    ["Mul", ["x", "cubic"], "c"],
    ["Mul", ["c", "x"], "b"],
    ["Add", ["b", "one"], "i"],
    ["Mul", ["j", "i"], "f"],
    ["Tanh", ["f"], "t"],
    ["Add", ["t", "one"], "o"],
    ["Mul", ["h", "o"], "y"],
  ],
];

function find(pattern: readonly Step[]): ReturnType<typeof findActivation> {
  return findIn(pattern.map(([opType, inputs, output]) => makeNode(opType, inputs, [output])));
}

function findIn(nodes: readonly Node[]): ReturnType<typeof findActivation> {
  const initializers = Object.entries(CONSTANTS).map(([name, value]) =>
    constant(name, [], Float32Array.of(value))
  );
  const graph = { name: "activation", nodes, initializers, inputs: [], outputs: [] };
  return findActivation(new GraphIndex({ ...graph, valueInfos: [], rest: [] }), "y");
}

/** Computes all values of a graph. */
function run(pattern: readonly Step[], values: Readonly<Record<string, number>>) {
  const known: Record<string, number> = { ...CONSTANTS, ...values };
  for (const [opType, [left, right], output] of pattern) {
    known[output] = OPERATORS[opType]!(known[left!]!, known[right ?? left!]!);
  }
  return known;
}

/** Yields the pattern with each of its inputs and operators replaced, one at a time. */
function* makeVariants(pattern: readonly Step[]): Generator<readonly Step[]> {
  for (const [at, [opType, inputs, output]] of pattern.entries()) {
    const names = [
      "x",
      "z",
      ...Object.keys(CONSTANTS),
      ...pattern.slice(0, at).map((step) => step[2]),
    ];
    for (const position of inputs.keys()) {
      for (const name of names) {
        yield pattern.with(at, [opType, inputs.with(position, name), output]);
      }
    }
    for (const other of Object.keys(OPERATORS)) {
      if (OPERATORS[other]!.length === inputs.length) {
        yield pattern.with(at, [other, inputs, output]);
      }
    }
  }
}

Deno.test("findActivation() finds an activation only if the graph computes it", () => {
  for (const pattern of PATTERNS) {
    const own = find(pattern);
    assert.equal(own?.input, "x");
    assert.deepEqual([...own.between, "y"].sort(), pattern.map(([, , output]) => output).sort());
    for (const variant of makeVariants(pattern)) {
      const found = find(variant);
      if (found === undefined) continue;
      for (const [x, z] of [[0.7, 0.4], [-1.3, 2.2], [2.4, -0.6]] as const) {
        const values = run(variant, { x, z });
        const wanted = activate(found.activation, values[found.input]!);
        assert.ok(Math.abs(values["y"]! - wanted) < 1e-5, JSON.stringify({ variant, found }));
      }
    }
  }
});

Deno.test("findActivation() distinguishes activation operators by their attributes", () => {
  const cases = [
    ["Relu", {}, "relu"],
    ["Tanh", {}, "tanh"],
    ["Gelu", {}, "gelu"],
    ["Gelu", { approximate: "none" }, "gelu"],
    ["Gelu", { approximate: "tanh" }, "gelu_tanh"],
    ["FastGelu", {}, "gelu_tanh"],
    ["QuickGelu", {}, "gelu_sigmoid"],
    ["QuickGelu", { alpha: { float: 1.702 } }, "gelu_sigmoid"],
    ["QuickGelu", { alpha: { float: 1 } }, "silu"],
    ["QuickGelu", { alpha: { float: 1.5 } }, undefined],
    ["Swish", {}, "silu"],
    ["Swish", { alpha: { float: 1 } }, "silu"],
    ["Swish", { alpha: { float: 2 } }, undefined],
    ["Erf", {}, undefined],
  ] as const;
  for (const [opType, attributes, wanted] of cases) {
    const found = findIn([makeNode(opType, ["x"], ["y"], { attributes })]);
    assert.equal(found?.activation, wanted, `${opType} ${JSON.stringify(attributes)}`);
  }
  // This FastGelu adds a bias.
  assert.equal(findIn([makeNode("FastGelu", ["x", "z"], ["y"])]), undefined);
});
