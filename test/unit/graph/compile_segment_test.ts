/** Results of compiling segments, and reasons why some are not compiled. */
import assert from "node:assert/strict";
import { compileSegment } from "../../../src/program/compile_segment.ts";
import { PositionTables } from "../../../src/program/position_tables.ts";
import { makeNode, type Node, type Tensor } from "../../../src/graph/file/proto.ts";
import { constant, ints } from "../../fixtures/graphs/onnx_builder.ts";
import { GAMMA, makeSegment, MATRIX, product, VECTOR, WIDTH } from "./row_segment.ts";

const TABLES = new PositionTables({ segments: [] }, 1);
const scalar = (name: string, value: number) => constant(name, [], Float32Array.of(value));

function compile(nodes: readonly Node[], initializers: readonly Tensor[]) {
  const options = {
    nodes: [],
    tables: TABLES,
    kept: new Set(["y"]),
    allRows: true,
    hasTiles: false,
    writesSums: true,
  };
  const compiled = compileSegment(makeSegment(nodes, initializers), options);
  assert.ok("program" in compiled, JSON.stringify(compiled));
  return compiled.program.dispatches;
}

Deno.test("compileSegment() fuses norm, bias, activation, scale and residual into one product", () => {
  const dispatches = compile([
    makeNode("LayerNormalization", ["x", "gamma", "vector"], ["n"], {
      attributes: { epsilon: { float: 0.5 } },
    }),
    product("n"),
    makeNode("Add", ["vector", "p"], ["b"]),
    makeNode("Gelu", ["b"], ["g"]),
    makeNode("Mul", ["g", "two"], ["s"]),
    makeNode("Add", ["r", "s"], ["y"]),
  ], [VECTOR, GAMMA, MATRIX, scalar("two", 2)]);
  assert.equal(dispatches.length, 1);
  const [{ kind, params, tensors }] = dispatches as [typeof dispatches[number]];
  assert.equal(kind, "matvec");
  assert.deepEqual(params, {
    elem: "f32",
    k: WIDTH,
    n: WIDTH,
    x: { stride: WIDTH, offset: 0 },
    matrixRows: WIDTH,
    out: undefined,
    weights: { kind: "columns" },
    norm: { kind: "layer", epsilon: 0.5, hasBeta: true },
    hasBias: true,
    gate: undefined,
    activation: "gelu",
    scale: 2,
    softcap: 0,
    hasResidual: true,
  });
  assert.deepEqual(tensors, {
    x: "x",
    weights: "matrix",
    scales: undefined,
    zeroPoints: undefined,
    affine: "gamma, vector",
    bias: "vector",
    residual: "r",
    out: "y",
  });
});

Deno.test("compileSegment() fuses a norm's own bias into the product before it", () => {
  const skip = makeNode("SkipLayerNormalization", ["p", "r", "gamma", "vector", "vector"], [
    ...["n", "", "", "s"],
  ], { domain: "com.microsoft" });
  const rest = [product("n", "q", "second"), makeNode("Add", ["q", "s"], ["y"])];
  const constants = [VECTOR, GAMMA, MATRIX, { ...MATRIX, name: "second" }];
  const [first, second, ...others] = compile([product(), skip, ...rest], constants);
  assert.deepEqual(others, []);
  assert.ok(first?.kind === "matvec" && second?.kind === "matvec");
  assert.deepEqual([first.tensors.bias, first.tensors.residual], ["vector", "r"]);
  assert.deepEqual([second.params.norm?.kind, second.tensors.residual], ["layer", "s"]);
  // Here no product is before the norm.
  const refused = compileSegment(
    makeSegment([{ ...skip, inputs: ["x", ...skip.inputs.slice(1)] }, ...rest], constants),
    {
      nodes: [],
      tables: TABLES,
      kept: new Set(["y"]),
      allRows: true,
      hasTiles: false,
      writesSums: true,
    },
  );
  assert.match("refused" in refused ? refused.refused : "", /No product can include the bias/);
});

/** Norms after attention and MLP, like in Gemma: they normalise `x` and `p`. */
function postNorms(name: string, second: readonly Node[] = []): readonly Node[] {
  const norm = (input: string, output: string) =>
    makeNode("SimplifiedLayerNormalization", [input, "gamma"], [output]);
  return [
    norm("x", "n"),
    makeNode("Add", ["r", "n"], [name]),
    norm(name, "before"),
    product("before", "p"),
    norm("p", "after"),
    ...second,
    makeNode("Add", ["after", name], ["y"]),
  ];
}

Deno.test("compileSegment() lets a product compute its input sum, and write it", () => {
  const dispatches = compile(postNorms("s"), [GAMMA, MATRIX]);
  assert.deepEqual(dispatches.map(({ kind }) => kind), ["matvec", "norm"]);
  const [first, last] = dispatches;
  assert.ok(first?.kind === "matvec" && last?.kind === "norm");
  const { x, affine, bias, residual, sum } = first.tensors;
  assert.deepEqual({ x, affine, bias, residual, sum }, {
    ...{ x: "x", affine: "gamma, gamma", bias: undefined, residual: "r", sum: "s" },
  });
  assert.equal(last.tensors.residual, "s");
});

Deno.test("compileSegment() computes a sum once, for any number of readers", () => {
  // `second` is another product of the same rows.
  const second = [product("before", "q", "second"), makeNode("Add", ["q", "after"], ["unused"])];
  const constants = [GAMMA, MATRIX, { ...MATRIX, name: "second" }];
  const segment = makeSegment(postNorms("s", second), constants);
  const options = { nodes: [], tables: TABLES, allRows: true, hasTiles: false, writesSums: true };
  const both = compileSegment(segment, { ...options, kept: new Set(["y", "q"]) });
  assert.ok("program" in both, JSON.stringify(both));
  const sums = both.program.dispatches.map(({ tensors }) => "sum" in tensors && tensors.sum);
  assert.equal(sums.filter((name) => name === "s").length, 1);
  const alone = compileSegment(makeSegment(postNorms("s"), constants), {
    ...{ ...options, writesSums: false, kept: new Set(["y"]) },
  });
  assert.ok("program" in alone);
  assert.deepEqual(alone.program.dispatches.map(({ kind }) => kind), ["norm", "matvec", "norm"]);
});

Deno.test("compileSegment() casts rows to the type of the weights, and results back", () => {
  const half = (name: string, shape: readonly number[]) =>
    constant(name, [...shape], new Float16Array(shape.reduce((a, b) => a * b, 1)));
  const cast = (input: string, output: string, to: 1 | 10) =>
    makeNode("Cast", [input], [output], { attributes: { to } });
  const split = makeNode("Split", ["p"], ["a", "b"], { attributes: { axis: -1 } });
  const dispatches = compile([
    cast("x", "h", 10),
    product("h", "p", "wide"),
    split,
    cast("a", "fa", 1),
    cast("b", "fb", 1),
    makeNode("Identity", ["fb"], ["y"]),
  ], [half("wide", [WIDTH, 2 * WIDTH])]);
  assert.deepEqual(
    dispatches.map(({ kind, params }) => [kind, "elem" in params && params.elem]),
    [["pointwise", "f16"], ["matvec", "f16"], ["pointwise", "f32"], ["pointwise", "f32"]],
  );
});

Deno.test("compileSegment() runs operations separately that no product can include", () => {
  const kinds = (nodes: readonly Node[], constants: readonly Tensor[] = []) =>
    compile(nodes, [MATRIX, VECTOR, GAMMA, ...constants]).map(({ kind }) => kind);
  // The output is the norm of a sum that a product computes.
  assert.deepEqual(
    kinds([
      product(),
      makeNode("SkipSimplifiedLayerNormalization", ["p", "r", "gamma"], ["y"], {
        domain: "com.microsoft",
      }),
    ]),
    ["matvec", "norm"],
  );
  // A product with two readers.
  assert.deepEqual(
    kinds([
      product(),
      makeNode("Sigmoid", ["p"], ["s"]),
      makeNode("Mul", ["p", "s"], ["a"]),
      makeNode("Add", ["a", "p"], ["y"]),
    ]),
    ["matvec", "pointwise", "pointwise"],
  );
  // Reshapes need no dispatch.
  assert.deepEqual(
    kinds([
      product(),
      makeNode("Reshape", ["p", "shape"], ["heads"]),
      makeNode("Reshape", ["heads", "shape"], ["y"]),
    ]),
    ["matvec"],
  );
});

Deno.test("compileSegment() fuses activations in basic operators into the product", () => {
  const cases: Record<string, readonly Node[]> = {
    silu: [makeNode("Sigmoid", ["p"], ["s"]), makeNode("Mul", ["p", "s"], ["y"])],
    relu_squared: [makeNode("Relu", ["p"], ["s"]), makeNode("Mul", ["s", "s"], ["y"])],
    gelu: [
      makeNode("Div", ["p", "root"], ["d"]),
      makeNode("Erf", ["d"], ["e"]),
      makeNode("Add", ["e", "one"], ["f"]),
      makeNode("Mul", ["p", "f"], ["m"]),
      makeNode("Mul", ["m", "half"], ["y"]),
    ],
    gelu_tanh: [
      makeNode("Pow", ["p", "three"], ["c"]),
      makeNode("Mul", ["c", "factor"], ["f"]),
      makeNode("Add", ["p", "f"], ["i"]),
      makeNode("Mul", ["i", "tanh"], ["j"]),
      makeNode("Tanh", ["j"], ["t"]),
      makeNode("Add", ["t", "one"], ["o"]),
      makeNode("Mul", ["p", "half"], ["h"]),
      makeNode("Mul", ["h", "o"], ["y"]),
    ],
    tanh: [makeNode("Tanh", ["p"], ["y"])],
    gelu_sigmoid: [
      makeNode("Mul", ["p", "quick"], ["q"]),
      makeNode("Sigmoid", ["q"], ["s"]),
      makeNode("Mul", ["p", "s"], ["y"]),
    ],
  };
  const constants = [
    MATRIX,
    scalar("root", Math.SQRT2),
    scalar("one", 1),
    scalar("half", 0.5),
    scalar("three", 3),
    scalar("factor", 0.044715),
    scalar("tanh", Math.sqrt(2 / Math.PI)),
    scalar("quick", 1.702),
  ];
  for (const [activation, nodes] of Object.entries(cases)) {
    const [first, ...others] = compile([product(), ...nodes], constants);
    assert.deepEqual(others, [], activation);
    assert.equal(first?.kind === "matvec" && first.params.activation, activation);
  }
  // 1.5 instead of 1: this is not a GELU.
  const wrong = [...constants.filter(({ name }) => name !== "one"), scalar("one", 1.5)];
  const options = {
    nodes: [],
    tables: TABLES,
    kept: new Set(["y"]),
    allRows: true,
    hasTiles: false,
    writesSums: true,
  };
  assert.deepEqual(
    compileSegment(makeSegment([product(), ...cases["gelu"]!], wrong), options),
    { refused: 'It has no kernel for Erf "e".' },
  );
});

Deno.test("compileSegment() writes the parts of a divided product next to each other, and then applies the soft cap", () => {
  const half = constant("half", [WIDTH, WIDTH / 2], new Float32Array(WIDTH * WIDTH / 2));
  const dispatches = compile([
    makeNode("SimplifiedLayerNormalization", ["x", "gamma"], ["n"]),
    product("n", "a", "half"),
    product("n", "b", "other"),
    makeNode("Concat", ["a", "b"], ["p"], { attributes: { axis: -1 } }),
    makeNode("Div", ["p", "cap"], ["d"]),
    makeNode("Tanh", ["d"], ["t"]),
    makeNode("Mul", ["t", "cap"], ["y"]),
  ], [GAMMA, half, { ...half, name: "other" }, scalar("cap", 30)]);
  const [first, second, divided, capped, ...others] = dispatches;
  assert.deepEqual(others, []);
  for (const [i, part] of [first, second].entries()) {
    assert.ok(part?.kind === "matvec");
    assert.deepEqual(part.params.out, { stride: WIDTH, offset: i * WIDTH / 2 });
    assert.deepEqual([part.tensors.affine, part.tensors.out], ["gamma", "p"]);
  }
  assert.ok(divided?.kind === "pointwise" && capped?.kind === "pointwise");
  assert.equal(divided.params.scale, 1 / 30);
  assert.deepEqual([capped.params.activation, capped.params.scale], ["tanh", 30]);
});

Deno.test("compileSegment() accepts parts of a row, and refuses those of each head", () => {
  const wide = constant("wide", [WIDTH, 4 * WIDTH], new Float32Array(4 * WIDTH * WIDTH));
  const shape = ints("shape", [1, -1, 4, WIDTH], [4]);
  const split = (input: string, sizes: readonly string[], numParts: number) =>
    makeNode("Split", [input, ...sizes], Array.from({ length: numParts }, (_, i) => `part${i}`), {
      attributes: { axis: -1 },
    });
  const end = [
    product("part1", "q"),
    makeNode("Identity", ["q"], ["y"]),
  ];
  const getRefusal = (nodes: readonly Node[]) => {
    const options = {
      nodes: [],
      tables: TABLES,
      kept: new Set(["y"]),
      allRows: true,
      hasTiles: false,
      writesSums: true,
    };
    const constants = [MATRIX, wide, shape, ints("two", [4, 4], [2])];
    const compiled = compileSegment(makeSegment(nodes, constants), options);
    return "refused" in compiled ? compiled.refused : undefined;
  };
  const whole = product("x", "p", "wide");
  assert.equal(getRefusal([whole, split("p", [], 4), ...end]), undefined);
  const heads = makeNode("Reshape", ["p", "shape"], ["h"]);
  // `[1, tokens, 4, 8]` in parts of 4 along the last axis, and evenly.
  const reason = 'Its Split "part0" takes a part of each head.';
  assert.equal(getRefusal([whole, heads, split("h", ["two"], 2), ...end]), reason);
  assert.equal(getRefusal([whole, heads, split("h", [], 4), ...end]), reason);
});

Deno.test("compileSegment() names operations without a kernel", () => {
  const refusals: readonly (readonly [readonly Node[], RegExp])[] = [
    [[makeNode("Softmax", ["x"], ["y"])], /no kernel for Softmax "y"/],
    [[makeNode("MatMul", ["x", "r"], ["y"])], /no kernel for MatMul "y"/],
    [[makeNode("Add", ["x", "half"], ["y"])], /"half" is float16, not float32/],
  ];
  const half = constant("half", [WIDTH], new Float16Array(WIDTH));
  for (const [nodes, reason] of refusals) {
    const options = {
      nodes: [],
      tables: TABLES,
      kept: new Set(["y"]),
      allRows: true,
      hasTiles: false,
      writesSums: true,
    };
    const compiled = compileSegment(makeSegment(nodes, [MATRIX, half]), options);
    assert.ok("refused" in compiled);
    assert.match(compiled.refused, reason);
  }
});

Deno.test("compileSegment() computes sums and norms in float32 around products in float16", () => {
  const cast = (input: string, output: string, to: number) =>
    makeNode("Cast", [input], [output], { attributes: { to } });
  const half = constant("half", [WIDTH, WIDTH], new Float16Array(WIDTH * WIDTH));
  const norm = { attributes: { epsilon: { float: 0.5 }, axis: -1 } };
  const dispatches = compile([
    makeNode("Add", ["x", "r"], ["s"]),
    makeNode("SimplifiedLayerNormalization", ["s", "gamma"], ["n"], norm),
    cast("n", "n16", 10),
    product("n16", "p16", "half"),
    makeNode("Relu", ["p16"], ["a16"]),
    product("a16", "q16", "half"),
    cast("q16", "q", 1),
    makeNode("SimplifiedLayerNormalization", ["q", "gamma"], ["m"], norm),
    makeNode("Add", ["s", "m"], ["y"]),
  ], [GAMMA, half]);
  const seen = dispatches.map((dispatch) => {
    const { kind } = dispatch;
    const elem = kind === "take_rows" ? "" : dispatch.params.elem;
    const from = kind === "pointwise" ? dispatch.params.from : undefined;
    return [kind, elem, ...from ? [from] : []].join(" ");
  });
  assert.deepEqual(seen, [
    ...["pointwise f32", "norm f32", "pointwise f16 f32"],
    ...["matvec f16", "matvec f16", "pointwise f32 f16", "norm f32"],
  ]);
});
