import assert from "node:assert/strict";
import { assertSameAsWhole } from "./compare.ts";
import { type AddAttention, decoder, type DecoderBuilder, projections } from "./test_decoder.ts";

/** As many key-value heads as query heads, which MultiHeadAttention requires. */
const SIZES = { kvHeads: 4 };

/** Makes a MultiHeadAttention of projections. `extra` adds bias, key_padding_mask and attention_bias. */
function mha(
  attributes: Readonly<Record<string, number>>,
  extra: (graph: DecoderBuilder) => readonly string[] = () => ["", "", ""],
): AddAttention {
  return (graph, layer) =>
    graph.add("MultiHeadAttention", [
      ...projections(graph, layer),
      ...extra(graph),
      layer.pastKey,
      layer.pastValue,
    ], {
      domain: "com.microsoft",
      outputs: [`mha_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: graph.sizes.heads, ...attributes },
    });
}

/** Adds the mask of ONNX Runtime's model builder, `[1, 1, tokens, total]`, of 0 and the lowest float. */
function causalBias(graph: DecoderBuilder): string {
  const name = "causal_bias";
  if (graph.nodes.some(({ outputs }) => outputs.includes(name))) return name;
  const size = (of: string, axis: number) =>
    graph.add("Gather", [graph.add("Shape", [of]), graph.ints([axis], [])]);
  const [total, tokens] = [size("attention_mask", 1), size("input_ids", 1)];
  const past = graph.add("Sub", [total, tokens]);
  const [zero, one] = [graph.ints([0], []), graph.ints([1], [])];
  const queries = graph.add("Unsqueeze", [graph.add("Range", [past, total, one]), graph.ints([1])]);
  const keys = graph.add("Unsqueeze", [graph.add("Range", [zero, total, one]), graph.ints([0])]);
  const seen = graph.add("LessOrEqual", [keys, queries]);
  const bias = graph.add("Where", [seen, graph.float(0), graph.float(-3.4e38)]);
  return graph.add("Unsqueeze", [bias, graph.ints([0, 1])], { outputs: [name] });
}

Deno.test("cutGraph() cuts MultiHeadAttention that is causal by attribute", async () => {
  const cut = await assertSameAsWhole(decoder(mha({ unidirectional: 1 }), { sizes: SIZES }));
  assert.deepEqual([cut.attentions[0]!.heads, cut.attentions[0]!.kvHeads], [4, 4]);
});

Deno.test("cutGraph() cuts MultiHeadAttention that is causal by its attention_bias", async () => {
  const model = decoder(mha({}, (graph) => ["", "", causalBias(graph)]), { sizes: SIZES });
  const { segments } = await assertSameAsWhole(model);
  // Embedding, norm and three products: nothing of the mask is left.
  assert.equal(segments[0]!.model.graph.nodes.length, 5);
});

/**
 * Adds the mask of older versions of that builder: the prompt's triangle, stretched over the past. It is valid only for
 * a prompt or a single token.
 */
function stretchedBias(graph: DecoderBuilder): string {
  const name = "stretched_bias";
  if (graph.nodes.some(({ outputs }) => outputs.includes(name))) return name;
  const size = (of: string) =>
    graph.add("Unsqueeze", [
      graph.add("Gather", [graph.add("Shape", [of]), graph.ints([1], [])]),
      graph.ints([0]),
    ]);
  const [total, tokens] = [size("attention_mask"), size("input_ids")];
  const concat = (parts: string[]) => graph.add("Concat", parts, { attributes: { axis: 0 } });
  const filled = graph.add("Expand", [graph.float(-3.4e38), concat([tokens, tokens])]);
  const triangle = graph.add("Trilu", [filled, graph.ints([1], [])], { attributes: { upper: 1 } });
  const shape = concat([graph.ints([1, 1]), tokens, total]);
  return graph.add("Expand", [triangle, shape], { outputs: [name] });
}

/** Makes an attention whose q, k and v, or only k and v, are packed head by head: `[1, tokens, heads, parts, size]`. */
function packed(parts: 2 | 3): AddAttention {
  return (graph, layer) => {
    const { heads, headDim } = graph.sizes;
    const rows = projections(graph, layer);
    const split = rows.slice(3 - parts).map((part) =>
      graph.add("Reshape", [part, graph.ints([0, 0, heads, 1, headDim])])
    );
    const joined = graph.add("Concat", split, { attributes: { axis: 3 } });
    return graph.add("MultiHeadAttention", [
      ...(parts === 3 ? [joined, ""] : [rows[0], joined]),
      ...["", "", "", ""],
      layer.pastKey,
      layer.pastValue,
    ], {
      domain: "com.microsoft",
      outputs: [`mha_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: heads, unidirectional: 1 },
    });
  };
}

for (const parts of [2, 3] as const) {
  const what = parts === 3 ? "q, k and v" : "k and v";
  Deno.test(`cutGraph() unpacks ${what} of MultiHeadAttention`, async () => {
    // ONNX Runtime's CPU provider has no packed variant: the separate one with equal weights is the reference.
    const truth = decoder(mha({ unidirectional: 1 }), { sizes: SIZES });
    await assertSameAsWhole(decoder(packed(parts), { sizes: SIZES }), { truth });
  });
}

Deno.test("cutGraph() accepts a mask that is valid for prompts and single tokens, and still runs chunks", async () => {
  const truth = decoder(mha({ unidirectional: 1 }), { sizes: SIZES });
  const model = decoder(mha({}, (graph) => ["", "", stretchedBias(graph)]), { sizes: SIZES });
  await assertSameAsWhole(model, { truth });
});

Deno.test("cutGraph() adds the bias of MultiHeadAttention's projections before it", async () => {
  const { heads, headDim } = { heads: 4, headDim: 16 };
  const bias = (graph: DecoderBuilder) => [graph.weights([3 * heads * headDim], 1), "", ""];
  await assertSameAsWhole(decoder(mha({ unidirectional: 1 }, bias), { sizes: SIZES }));
});
