import assert from "node:assert/strict";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import { assertSameAsWhole } from "./compare.ts";
import { additiveMask, spelledOut } from "./spelled_out.ts";
import {
  type AddAttention,
  decoder,
  type DecoderBuilder,
  lengths,
  MASK,
  POSITIONS,
  projections,
} from "./test_decoder.ts";

const CONTEXT = 64;

/** Makes com.microsoft's RotaryEmbedding of queries and keys, then a GroupQueryAttention without rotary. */
function rotatedBefore(positions: (graph: DecoderBuilder) => string): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads, headDim } = graph.sizes;
    const table = (name: string, of: (angle: number) => number) =>
      graph.constant(constant(
        name,
        [CONTEXT, headDim / 2],
        Float32Array.from(
          { length: CONTEXT * headDim / 2 },
          (_, i) => of(Math.floor(i / (headDim / 2)) * 100 ** (-2 * (i % (headDim / 2)) / headDim)),
        ),
      ));
    const [cos, sin] = [table("cos", Math.cos), table("sin", Math.sin)];
    const places = positions(graph);
    const [q, k, v] = projections(graph, layer);
    const rotate = (rows: string, num_heads: number) =>
      graph.add("RotaryEmbedding", [rows, places, cos, sin], {
        domain: "com.microsoft",
        attributes: { num_heads, rotary_embedding_dim: 0 },
      });
    return graph.add("GroupQueryAttention", [
      rotate(q, heads),
      rotate(k, kvHeads),
      v,
      layer.pastKey,
      layer.pastValue,
      ...lengths(graph),
    ], {
      domain: "com.microsoft",
      outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: heads, kv_num_heads: kvHeads },
    });
  };
}

/** Adds positions computed from the mask, as in exports: the last `tokens` of its running sum, minus one. */
function fromMask(graph: DecoderBuilder): string {
  const name = "positions_from_mask";
  if (graph.nodes.some(({ outputs }) => outputs.includes(name))) return name;
  const sum = graph.add("CumSum", ["attention_mask", graph.ints([1], [])]);
  const all = graph.add("Sub", [sum, graph.ints([1], [])]);
  const tokens = graph.add("Gather", [graph.add("Shape", ["input_ids"]), graph.ints([1])]);
  const from = graph.add("Neg", [tokens]);
  const end = graph.constant(constant("end", [1], BigInt64Array.of(2n ** 63n - 1n)));
  return graph.add("Slice", [all, from, end, graph.ints([1])], { outputs: [name] });
}

/** Adds positions as a range that starts at the cache's length. */
function fromCache(graph: DecoderBuilder): string {
  const name = "positions_from_cache";
  if (graph.nodes.some(({ outputs }) => outputs.includes(name))) return name;
  const size = (of: string, axis: number) =>
    graph.add("Gather", [graph.add("Shape", [of]), graph.ints([axis], [])]);
  const past = size("past_key_values.0.key", 2);
  const total = graph.add("Add", [past, size("input_ids", 1)]);
  const range = graph.add("Range", [past, total, graph.ints([1], [])]);
  return graph.add("Unsqueeze", [range, graph.ints([0])], { outputs: [name] });
}

Deno.test("cutGraph() keeps position_ids as an input if segments use them", async () => {
  const attention = rotatedBefore(() => "position_ids");
  const cut = await assertSameAsWhole(decoder(attention, { inputs: [MASK, POSITIONS] }));
  assert.deepEqual(cut.positions, {
    name: "position_ids",
    dtype: "int64",
    shape: [1, "tokens"],
    isIndex: true,
  });
  assert.equal(cut.attentions[0]!.rotary, undefined);
});

for (
  const [from, positions] of [["the mask", fromMask], ["the cache's length", fromCache]] as const
) {
  Deno.test(`cutGraph() replaces positions computed from ${from} by an input`, async () => {
    const cut = await assertSameAsWhole(decoder(rotatedBefore(positions)));
    assert.deepEqual(cut.positions, { name: "position_ids", dtype: "int64", shape: [1, "tokens"] });
    const inputs = new Set(
      cut.segments.flatMap((segment) => segment.inputs.map(({ name }) => name)),
    );
    assert.ok(!inputs.has("attention_mask"));
  });
}

Deno.test("cutGraph() limits positions to a position table's rows, minus its offset", async () => {
  const attention = spelledOut({
    scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
  });
  const model = decoder(
    (graph, layer) => {
      if (layer.index > 0) return attention(graph, layer);
      // OPT's table: it starts with two unused rows.
      const indices = graph.add("Add", [fromMask(graph), graph.ints([2], [])]);
      const rows = graph.add("Gather", [graph.weights([CONTEXT + 2, graph.sizes.hidden]), indices]);
      return attention(graph, { ...layer, input: graph.add("Add", [layer.input, rows]) });
    },
  );
  assert.equal((await assertSameAsWhole(model, { contextLength: 512 })).maxPositions, CONTEXT);
});

Deno.test("cutGraph() accepts input embeddings instead of token ids", async () => {
  const model = decoder(
    (graph, layer) => {
      const { heads, kvHeads } = graph.sizes;
      return graph.add("GroupQueryAttention", [
        ...projections(graph, layer),
        layer.pastKey,
        layer.pastValue,
        ...lengths(graph),
      ], {
        domain: "com.microsoft",
        outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
        attributes: { num_heads: heads, kv_num_heads: kvHeads },
      });
    },
    { embeddings: true },
  );
  const cut = await assertSameAsWhole(model, { width: 24 });
  assert.deepEqual(cut.tokens, {
    name: "inputs_embeds",
    dtype: "float32",
    shape: [1, "tokens", 24],
    kind: "embeddings",
  });
});

Deno.test("cutGraph() computes all requested rows of an export with an input for the number of logits", async () => {
  const model = decoder(rotatedBefore(() => "position_ids"), {
    inputs: [MASK, POSITIONS, ["num_logits_to_keep", "int64", []]],
    project: (graph, hidden) => {
      const from = graph.add("Unsqueeze", [
        graph.add("Neg", ["num_logits_to_keep"]),
        graph.ints([0]),
      ]);
      const end = graph.constant(constant("end", [1], BigInt64Array.of(2n ** 63n - 1n)));
      const kept = graph.add("Slice", [hidden, from, end, graph.ints([1])]);
      const { hidden: width, vocab } = graph.sizes;
      graph.add("MatMul", [kept, graph.weights([width, vocab])], { outputs: ["logits"] });
    },
  });
  await assertSameAsWhole(model);
});

Deno.test("cutGraph() computes any requested row of an export that only computes the last token's logits", async () => {
  const project = (pick: (graph: DecoderBuilder, hidden: string) => string) =>
    decoder(rotatedBefore(() => "position_ids"), {
      inputs: [MASK, POSITIONS],
      project: (graph, hidden) => {
        const { hidden: width, vocab } = graph.sizes;
        const product = [pick(graph, hidden), graph.weights([width, vocab])];
        graph.add("MatMul", product, { outputs: ["logits"] });
      },
    });
  const truth = project((_graph, hidden) => hidden);
  const byIndex = project((graph, hidden) => {
    const row = graph.add("Gather", [hidden, graph.ints([-1], [])], { attributes: { axis: 1 } });
    return graph.add("Unsqueeze", [row, graph.ints([1])]);
  });
  const bySlice = project((graph, hidden) => {
    const end = graph.constant(constant("end", [1], BigInt64Array.of(2n ** 63n - 1n)));
    return graph.add("Slice", [hidden, graph.ints([-1]), end, graph.ints([1])]);
  });
  assert.deepEqual((await assertSameAsWhole(byIndex, { truth })).output.shape, ["rows", 1, 29]);
  assert.deepEqual((await assertSameAsWhole(bySlice, { truth })).output.shape, [1, "rows", 29]);
});

Deno.test("cutGraph() keeps the operations after the projection: cast, scale and softcap of the logits", async () => {
  const model = decoder(rotatedBefore(() => "position_ids"), {
    inputs: [MASK, POSITIONS],
    project: (graph, hidden) => {
      const { hidden: width, vocab } = graph.sizes;
      const flat = graph.add("Reshape", [hidden, graph.ints([-1, width])]);
      const product = graph.add("Gemm", [
        flat,
        graph.weights([vocab, width]),
        graph.weights([vocab]),
      ], {
        attributes: { transB: 1 },
      });
      const tanh = graph.add("Tanh", [graph.add("Div", [product, graph.float(3)])]);
      const capped = graph.add("Mul", [tanh, graph.float(3)]);
      graph.add("Reshape", [capped, graph.ints([1, -1, vocab])], { outputs: ["logits"] });
    },
  });
  const cut = await assertSameAsWhole(model);
  assert.deepEqual(cut.output.shape, [1, "rows", 29]);
});

Deno.test("cutGraph() keeps positions in sections", async () => {
  const attention = rotatedBefore((graph) => {
    const name = "second_section";
    if (graph.nodes.some(({ outputs }) => outputs.includes(name))) return name;
    return graph.add("Gather", ["position_ids", graph.ints([1], [])], { outputs: [name] });
  });
  const model = decoder(attention, {
    inputs: [MASK, ["position_ids", "int64", [3, "batch_size", "sequence_length"]]],
  });
  assert.deepEqual((await assertSameAsWhole(model)).positions!.shape, [3, 1, "tokens"]);
});

Deno.test("cutGraph() keeps a table row that each token selects by its position", async () => {
  const attention = spelledOut({
    scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
  });
  const model = decoder((graph, layer) => {
    const { hidden } = graph.sizes;
    // GPT-J's angles: GatherElements with the positions spread over the row.
    const table = graph.weights([1, CONTEXT, hidden]);
    const wide = graph.add("Unsqueeze", ["position_ids", graph.ints([2])]);
    const indices = graph.add("Tile", [wide, graph.ints([1, 1, hidden])]);
    const rows = graph.add("GatherElements", [table, indices], { attributes: { axis: 1 } });
    return attention(graph, { ...layer, input: graph.add("Mul", [layer.input, rows]) });
  }, { inputs: [MASK, POSITIONS] });
  await assertSameAsWhole(model);
});

Deno.test("cutGraph() notes that with dynamic quantisation a step's tokens share one scale", async () => {
  const attention = rotatedBefore(() => "position_ids");
  const model = decoder(attention, {
    inputs: [MASK, POSITIONS],
    project: (graph, hidden) => {
      const { hidden: width, vocab } = graph.sizes;
      const outputs = ["quantised", "scale", "zero_point"];
      graph.add("DynamicQuantizeLinear", [hidden], { outputs });
      const bytes = Uint8Array.from({ length: width * vocab }, (_, i) => (i * 37) % 256);
      const weights = graph.constant(constant("bytes", [width, vocab], bytes));
      const product = graph.add("MatMulInteger", ["quantised", weights, "zero_point"]);
      const scaled = graph.add("Cast", [product], { attributes: { to: 1 } });
      graph.add("Mul", [scaled, "scale"], { outputs: ["logits"] });
    },
  });
  // Steps of a single sequence, with all rows requested, are quantised like the whole graph.
  const cut = await assertSameAsWhole(model, { alone: true, tolerance: 1e-3 });
  assert.match(
    cut.notes.join(),
    /DynamicQuantizeLinear quantises the activations of a step with one scale/,
  );
});
