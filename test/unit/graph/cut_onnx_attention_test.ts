import assert from "node:assert/strict";
import type { AttributeValue } from "../../../src/graph/file/proto.ts";
import { assertSameAsWhole } from "./compare.ts";
import { cached, joinHeads, repeatHeads, splitHeads } from "./spelled_out.ts";
import { type AddAttention, decoder, type DecoderBuilder, projections } from "./test_decoder.ts";

const OPSET = 23;

/** Makes ONNX's Attention over rows, or over `[1, heads, tokens, size]`. */
function attention(
  attributes: Readonly<Record<string, AttributeValue>>,
  options: { headMajor?: boolean; mask?: (graph: DecoderBuilder) => string } = {},
): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads, headDim } = graph.sizes;
    const counts = [heads, kvHeads, kvHeads];
    const operands = projections(graph, layer).map((rows, i) => {
      if (!options.headMajor) return rows;
      const split = graph.add("Reshape", [rows, graph.ints([0, 0, counts[i]!, headDim])]);
      return graph.add("Transpose", [split], { attributes: { perm: [0, 2, 1, 3] } });
    });
    const result = graph.add("Attention", [
      ...operands,
      options.mask?.(graph) ?? "",
      layer.pastKey,
      layer.pastValue,
    ], {
      outputs: [`attention_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: {
        ...(options.headMajor ? {} : { q_num_heads: heads, kv_num_heads: kvHeads }),
        ...attributes,
      },
    });
    if (!options.headMajor) return result;
    const swapped = graph.add("Transpose", [result], { attributes: { perm: [0, 2, 1, 3] } });
    return graph.add("Reshape", [swapped, graph.ints([0, 0, heads * headDim])]);
  };
}

/** Makes a boolean mask `[tokens, total]`: causal, with a window of `window` keys if given. */
function boolMask(window?: number): (graph: DecoderBuilder) => string {
  return (graph) => {
    const name = "bool_mask";
    if (graph.nodes.some(({ outputs }) => outputs.includes(name))) return name;
    const size = (of: string, axis: number) =>
      graph.add("Gather", [graph.add("Shape", [of]), graph.ints([axis], [])]);
    const [total, tokens] = [size("attention_mask", 1), size("input_ids", 1)];
    const [zero, one] = [graph.ints([0], []), graph.ints([1], [])];
    const past = graph.add("Sub", [total, tokens]);
    const queries = graph.add("Unsqueeze", [
      graph.add("Range", [past, total, one]),
      graph.ints([1]),
    ]);
    const keys = graph.add("Unsqueeze", [graph.add("Range", [zero, total, one]), graph.ints([0])]);
    const causal = graph.add("LessOrEqual", [keys, queries]);
    if (window === undefined) return graph.add("Identity", [causal], { outputs: [name] });
    const from = graph.add("Sub", [queries, graph.ints([window], [])]);
    return graph.add("And", [causal, graph.add("Greater", [keys, from])], { outputs: [name] });
  };
}

Deno.test("cutGraph() cuts ONNX's Attention over rows", async () => {
  const cut = await assertSameAsWhole(decoder(attention({ is_causal: 1 }), { opset: OPSET }));
  assert.deepEqual([cut.attentions[0]!.kvHeads, cut.attentions[0]!.scale], [2, 0.25]);
});

Deno.test("cutGraph() cuts ONNX's Attention over heads without transposing them", async () => {
  const model = decoder(attention({ is_causal: 1 }, { headMajor: true }), { opset: OPSET });
  const { segments, attentions } = await assertSameAsWhole(model);
  assert.equal(segments[0]!.model.graph.nodes.length, 5);
  assert.equal(
    segments[1]!.inputs.find(({ name }) => name === attentions[0]!.output.name)!.shape.length,
    3,
  );
});

/** ONNX's Attention over a cache that the graph itself appends to. Each KV head is repeated for its query heads. */
const overOwnCache: AddAttention = (graph, layer) => {
  const { heads, kvHeads } = graph.sizes;
  const [q, k, v] = projections(graph, layer);
  const append = (past: string, rows: string, present: string) => {
    // Exporters copy a cache by a Concat with one input.
    const copy = graph.add("Concat", [past], { attributes: { axis: -2 } });
    return repeatHeads(graph, cached(graph, copy, splitHeads(graph, rows, kvHeads), present));
  };
  const result = graph.add("Attention", [
    splitHeads(graph, q, heads),
    append(layer.pastKey, k, layer.presentKey),
    append(layer.pastValue, v, layer.presentValue),
    boolMask()(graph),
  ]);
  return joinHeads(graph, result);
};

Deno.test("cutGraph() cuts ONNX's Attention over a cache that the graph appends to", async () => {
  const { attentions: [node] } = await assertSameAsWhole(decoder(overOwnCache, { opset: OPSET }));
  assert.deepEqual([node!.heads, node!.kvHeads, node!.scale], [4, 2, 0.25]);
});

Deno.test("cutGraph() proves a boolean mask causal and recovers its window", async () => {
  for (const window of [undefined, 3]) {
    const model = decoder(attention({}, { mask: boolMask(window) }), { opset: OPSET });
    const cut = await assertSameAsWhole(model);
    assert.equal(cut.attentions[0]!.localWindow, window);
  }
});

Deno.test("cutGraph() keeps the scale and softcap of ONNX's Attention", async () => {
  const model = decoder(
    attention({ is_causal: 1, scale: { float: 0.4 }, softcap: { float: 0.6 } }),
    {
      opset: OPSET,
    },
  );
  const cut = await assertSameAsWhole(model);
  assert.equal(cut.attentions[0]!.softcap, Math.fround(0.6));
});
