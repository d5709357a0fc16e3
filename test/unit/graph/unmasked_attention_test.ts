import assert from "node:assert/strict";
import { GraphIndex } from "../../../src/graph/graph_index.ts";
import { makeNode, type Node, type Tensor } from "../../../src/graph/file/proto.ts";
import { makeValueInfo } from "../../../src/graph/file/proto_codec.ts";
import { findUnmaskedAttentions } from "../../../src/graph/attention/unmasked_attention.ts";
import { constant, ints } from "../../fixtures/graphs/onnx_builder.ts";

const [HEADS, SIZE] = [3, 4];
const WIDTH = HEADS * SIZE;

interface Spelling {
  /** Heads and batch on one axis, like in PyTorch's `bmm`. */
  readonly isBmm?: boolean;
  readonly makeScale?: "queries" | "keys" | "scores";
  readonly mask?: boolean;
  readonly axis?: number;
  readonly swapsWeights?: boolean;
}

/** Finds the attentions in a graph with one self-attention over rows `q`, `k` and `v`. */
function spell({ isBmm = false, makeScale, mask, axis = -1, swapsWeights = false }: Spelling) {
  const nodes: Node[] = [];
  const initializers: Tensor[] = [
    ints("parted", [0, -1, HEADS, SIZE]),
    ints("flat", [-1, 5, SIZE]),
    ints("unflat", [-1, HEADS, 5, SIZE]),
    ints("joined", [0, -1, WIDTH]),
    constant("factor", [1], Float32Array.of(0.5)),
    constant("hidden", [1, 5], Float32Array.of(0, 0, -1e9, 0, 0)),
  ];
  const add = (opType: string, inputs: string[], output: string, attributes = {}) => {
    nodes.push(makeNode(opType, inputs, [output], { attributes }));
    return output;
  };
  const scale = (tensor: string, of: Spelling["makeScale"]) =>
    makeScale === of ? add("Mul", ["factor", tensor], `${tensor}/scaled`) : tensor;
  const getHeads = (rows: string) => {
    const parted = add("Reshape", [rows, "parted"], `${rows}/parted`);
    const heads = add("Transpose", [parted], `${rows}/heads`, { perm: [0, 2, 1, 3] });
    return isBmm ? add("Reshape", [heads, "flat"], `${rows}/flat`) : heads;
  };
  const q = scale(getHeads("q"), "queries");
  const perm = isBmm ? [0, 2, 1] : [0, 1, 3, 2];
  const k = scale(add("Transpose", [getHeads("k")], "k/transposed", { perm }), "keys");
  let scores = scale(add("MatMul", [q, k], "scores"), "scores");
  if (mask) scores = add("Add", [scores, "hidden"], "masked");
  const weights = add("Softmax", [scores], "weights", { axis });
  const factors = [weights, getHeads("v")];
  let heads = add("MatMul", swapsWeights ? factors.reverse() : factors, "result");
  if (isBmm) heads = add("Reshape", [heads, "unflat"], "result/parted");
  const swapped = add("Transpose", [heads], "result/swapped", { perm: [0, 2, 1, 3] });
  add("Reshape", [swapped, "joined"], "out");
  const rows = ["batch", 5, WIDTH];
  return find({ nodes, initializers, inputs: { q: rows, k: rows, v: rows } });
}

function find({ nodes, initializers, inputs }: {
  readonly nodes: readonly Node[];
  readonly initializers: readonly Tensor[];
  readonly inputs: Readonly<Record<string, readonly (number | string)[]>>;
}) {
  const index = new GraphIndex({
    ...{ name: "test", nodes, initializers, outputs: [], valueInfos: [], rest: [] },
    inputs: Object.entries(inputs).map(([name, shape]) => makeValueInfo(name, "float32", shape)),
  });
  return findUnmaskedAttentions(index).found;
}

const FOUND = {
  q: "q",
  k: { kind: "rows", tensor: "k" },
  v: { kind: "rows", tensor: "v" },
  output: "out",
  heads: HEADS,
  scale: 1,
} as const;

Deno.test("findUnmaskedAttentions() finds rows, heads and scale, for any position of the scale", () => {
  assert.deepEqual(spell({}), [FOUND]);
  for (const makeScale of ["queries", "keys", "scores"] as const) {
    assert.deepEqual(spell({ makeScale }), [{ ...FOUND, scale: 0.5 }]);
  }
});

Deno.test("findUnmaskedAttentions() finds heads that share an axis with the batch", () => {
  assert.deepEqual(spell({ isBmm: true, axis: 2 }), [FOUND]);
});

Deno.test("findUnmaskedAttentions() ignores attentions with masks, softmaxes over other axes and products in reverse order", () => {
  assert.deepEqual(spell({ mask: true }), []);
  assert.deepEqual(spell({ axis: 2 }), []);
  assert.deepEqual(spell({ swapsWeights: true }), []);
});

Deno.test("findUnmaskedAttentions() distinguishes keys that are an input from keys appended to an input", () => {
  const cache = ["batch", HEADS, "places", SIZE];
  const nodes = [
    makeNode("Reshape", ["x", "parted"], ["x/parted"]),
    makeNode("Transpose", ["x/parted"], ["heads"], { attributes: { perm: [0, 2, 1, 3] } }),
    makeNode("Concat", ["past_keys", "heads"], ["all_keys"], { attributes: { axis: 2 } }),
    makeNode("Concat", ["past_values", "heads"], ["all_values"], { attributes: { axis: -2 } }),
    ...["all", "past"].flatMap((from) => [
      makeNode("Transpose", [`${from}_keys`], [`${from}/columns`], {
        attributes: { perm: [0, 1, 3, 2] },
      }),
      makeNode("MatMul", ["heads", `${from}/columns`], [`${from}/scores`]),
      makeNode("Softmax", [`${from}/scores`], [`${from}/weights`]),
      makeNode("MatMul", [`${from}/weights`, `${from}_values`], [`${from}/result`]),
      makeNode("Transpose", [`${from}/result`], [`${from}/swapped`], {
        attributes: { perm: [0, 2, 1, 3] },
      }),
      makeNode("Reshape", [`${from}/swapped`, "joined"], [`${from}/out`]),
    ]),
  ];
  const found = find({
    nodes,
    initializers: [ints("parted", [0, -1, HEADS, SIZE]), ints("joined", [0, -1, WIDTH])],
    inputs: { x: ["batch", "tokens", WIDTH], past_keys: cache, past_values: cache },
  });
  assert.deepEqual(found.map(({ k, v }) => [k, v]), [
    [
      { kind: "appended", tensor: "x", past: "past_keys" },
      { kind: "appended", tensor: "x", past: "past_values" },
    ],
    [{ kind: "input", tensor: "past_keys" }, { kind: "input", tensor: "past_values" }],
  ]);
});
