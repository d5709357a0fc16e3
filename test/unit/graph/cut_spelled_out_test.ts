import assert from "node:assert/strict";
import { assertSameAsWhole } from "./compare.ts";
import {
  addFalconBias,
  additiveMask,
  addMptBias,
  addMptTable,
  bloomAttention,
  cached,
  computeSlopes,
  joinHeads,
  joinSinks,
  repeatHeads,
  rootOfScale,
  spelledOut,
  type Spelling,
  splitHeads,
} from "./spelled_out.ts";
import {
  type AddAttention,
  decoder,
  inMemory,
  MASK,
  POSITIONS,
  projections,
} from "./test_decoder.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";

/** The first opset with reductions whose axes are an input. */
const OPSET_18 = { opset: 18 };

Deno.test("cutGraph() cuts attention exported by PyTorch: repeated heads, rotary by position_ids, scale split over q and k", async () => {
  const model = decoder(
    spelledOut({
      rotary: true,
      prescale: rootOfScale,
      scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
    }),
    { inputs: [MASK, POSITIONS] },
  );
  const cut = await assertSameAsWhole(model);
  const [node] = cut.attentions;
  assert.deepEqual([node!.heads, node!.kvHeads, node!.headDim, node!.vHeadDim], [4, 2, 16, 16]);
  // q's factor stays in the segment, k's becomes the scale.
  assert.ok(Math.abs(node!.scale - 0.5) < 1e-6, String(node!.scale));
  assert.equal(node!.localWindow, undefined);
  assert.deepEqual(cut.positions!.shape, [1, "tokens"]);
});

Deno.test("cutGraph() finds a local window in basic operators", async () => {
  for (const window of [1, 4]) {
    const model = decoder(
      spelledOut({
        scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph, { window })]),
      }),
    );
    const cut = await assertSameAsWhole(model);
    assert.equal(cut.attentions[1]!.localWindow, window);
  }
});

Deno.test("cutGraph() finds scale and softcap in the operations on the scores", async () => {
  const model = decoder(spelledOut({
    scores: (graph, scores) => {
      const scaled = graph.add("Div", [scores, graph.float(4)]);
      const tanh = graph.add("Tanh", [graph.add("Div", [scaled, graph.float(0.75)])]);
      const capped = graph.add("Mul", [tanh, graph.float(0.75)]);
      return graph.add("Add", [capped, additiveMask(graph)]);
    },
  }));
  const [node] = (await assertSameAsWhole(model)).attentions;
  assert.ok(Math.abs(node!.scale - 0.25) < 1e-6, String(node!.scale));
  assert.ok(Math.abs(node!.softcap! - 0.75) < 1e-6, String(node!.softcap));
});

Deno.test("cutGraph() cuts a layer that attends to the keys and values of another, like the last ones of Gemma 3n", async () => {
  const model = decoder((graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [q, k, v] = projections(graph, layer);
    const append = (past: string, rows: string, present: string) =>
      cached(graph, past, splitHeads(graph, rows, kvHeads), present);
    append(layer.pastKey, k, layer.presentKey);
    append(layer.pastValue, v, layer.presentValue);
    const [keys, values] = ["key", "value"].map((kind) =>
      repeatHeads(graph, `present.0.${kind}`)
    ) as [string, string];
    const turned = graph.add("Transpose", [keys], { attributes: { perm: [0, 1, 3, 2] } });
    const product = graph.add("MatMul", [splitHeads(graph, q, heads), turned]);
    const scores = graph.add("Add", [product, additiveMask(graph)]);
    const weights = graph.add("Softmax", [scores], { attributes: { axis: -1 } });
    return joinHeads(graph, graph.add("MatMul", [weights, values]));
  });
  const [own, other] = (await assertSameAsWhole(model)).attentions;
  assert.deepEqual([other!.k, other!.v], [own!.k, own!.v]);
  assert.notDeepEqual(other!.q, own!.q);
});

Deno.test("cutGraph() skips a guard against NaN after the softmax", async () => {
  const model = decoder(spelledOut({
    scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
    weights: (graph, weights) =>
      graph.add("Where", [graph.add("IsNaN", [weights]), graph.float(0), weights]),
  }));
  await assertSameAsWhole(model);
});

const BIASED: Readonly<Record<string, AddAttention>> = {
  "BLOOM": bloomAttention,
  "Falcon-RW": spelledOut({ scores: addFalconBias }),
  "MPT": spelledOut({ scores: addMptBias }),
  "MPT's export by PyTorch": spelledOut({ scores: addMptTable }),
};
for (const [name, attention] of Object.entries(BIASED)) {
  Deno.test(`cutGraph() finds the slopes of ALiBi as in ${name}`, async () => {
    const sizes = name === "BLOOM" ? { kvHeads: 4 } : {};
    const { attentions, notes } = await assertSameAsWhole(decoder(attention, { sizes }));
    // Falcon-RW scales products and biases together, by 1 / sqrt(16).
    const factor = name === "Falcon-RW" ? 1 / 4 : 1;
    computeSlopes(4).forEach((slope, head) => {
      const found = attentions[1]!.slopes![head]!;
      assert.ok(Math.abs(found - factor * slope) < 1e-6, `${found}, wanted ${factor * slope}`);
    });
    assert.deepEqual(notes, []);
  });
}

/** Latent attention, as PyTorch exports DeepSeek: keys and values are parts of the heads of one product. */
const latentAttention: AddAttention = (graph, layer) => {
  const { hidden, heads, headDim, keyDim } = graph.sizes;
  const project = (size: number) => {
    const rows = graph.add("MatMul", [layer.input, graph.weights([hidden, heads * size])]);
    const split = graph.add("Reshape", [rows, graph.ints([1, -1, heads, size])]);
    return graph.add("Transpose", [split], { attributes: { perm: [0, 2, 1, 3] } });
  };
  const q = project(keyDim!);
  const parts = [`keys_${layer.index}`, `values_${layer.index}`];
  graph.add("Split", [project(keyDim! + headDim), graph.ints([keyDim!, headDim])], {
    ...{ attributes: { axis: -1 }, outputs: parts },
  });
  const keys = cached(graph, layer.pastKey, parts[0]!, layer.presentKey);
  const values = cached(graph, layer.pastValue, parts[1]!, layer.presentValue);
  const turned = graph.add("Transpose", [keys], { attributes: { perm: [0, 1, 3, 2] } });
  const scores = graph.add("Add", [graph.add("MatMul", [q, turned]), additiveMask(graph)]);
  const weights = graph.add("Softmax", [scores], { attributes: { axis: -1 } });
  return joinHeads(graph, graph.add("MatMul", [weights, values]));
};

Deno.test("cutGraph() widens values that are smaller than keys", async () => {
  const sizes = { kvHeads: 4, headDim: 16, keyDim: 24 };
  const { attentions } = await assertSameAsWhole(decoder(latentAttention, { sizes }));
  for (const { headDim, vHeadDim } of attentions) assert.deepEqual([headDim, vHeadDim], [24, 24]);
});

for (const place of ["first", "last"] as const) {
  Deno.test(`cutGraph() finds sinks that are joined to the scores, ${place} in each row`, async () => {
    const [first, second] =
      (await assertSameAsWhole(decoder(spelledOut(joinSinks(place)), OPSET_18)))
        .attentions;
    assert.deepEqual(first!.sinks!.shape, [4]);
    assert.notDeepEqual(first!.sinks!.data, second!.sinks!.data);
  });
}

Deno.test("cutGraph() takes logits for sinks only if they do not depend on the token, and if their weight is dropped", async () => {
  const { scores, weights } = joinSinks("last");
  const byToken: Spelling = {
    weights,
    scores(graph, own) {
      const masked = graph.add("Add", [own, additiveMask(graph)]);
      const sums = graph.add("ReduceSum", [own, graph.ints([-1])]);
      return graph.add("Concat", [masked, sums], { attributes: { axis: -1 } });
    },
  };
  const withoutFirstKey: Spelling = { scores, weights: joinSinks("first").weights };
  for (const spelling of [byToken, withoutFirstKey]) {
    const result = cutGraph(
      await readModel(inMemory(decoder(spelledOut(spelling), OPSET_18)), "model.onnx"),
      { contextLength: 64 },
    );
    assert.ok("refused" in result);
  }
});

for (const casts of ["past", "rows"] as const) {
  Deno.test(`cutGraph() skips casts of the ${casts} if a cache has another type than the graph`, async () => {
    const model = decoder(
      spelledOut({
        casts,
        scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
      }),
      { cacheDtype: "float16" },
    );
    // ONNX Runtime rounds cached values.
    const { attentions, segments } = await assertSameAsWhole(model, { tolerance: 5e-3 });
    const dtypes = new Map(
      segments.flatMap(({ outputs }) => outputs.map(({ name, dtype }) => [name, dtype])),
    );
    for (const { q, k, v, dtype } of attentions) {
      assert.equal(dtype, "float32");
      assert.deepEqual([q, k, v].map(({ tensor }) => dtypes.get(tensor)), Array(3).fill(dtype));
    }
  });
}
