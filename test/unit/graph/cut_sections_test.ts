import assert from "node:assert/strict";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import { assertSameAsWhole } from "./compare.ts";
import { additiveMask, cached, joinHeads, repeatHeads, splitHeads } from "./spelled_out.ts";
import { decoder, type DecoderBuilder, type Layer, MASK, projections } from "./test_decoder.ts";

const SECTIONS = [2, 3, 3];

/** Adds cosines or sines `[1, 1, tokens, size]`. Each section uses one row of the positions, as in Qwen2-VL. */
function sectionedAngles(graph: DecoderBuilder, name: "Cos" | "Sin"): string {
  const output = `sectioned_${name}`;
  if (graph.nodes.some(({ outputs }) => outputs.includes(output))) return output;
  const half = graph.sizes.headDim / 2;
  const frequencies = Float32Array.from({ length: half }, (_, i) => 100 ** (-i / half));
  const table = graph.constant(constant("inv_freq", [1, 1, half, 1], frequencies));
  const batch = graph.add("Gather", [graph.add("Shape", ["position_ids"]), graph.ints([1])]);
  const sizes = [graph.ints([3]), batch, graph.ints([half]), graph.ints([1])];
  const wide = graph.add("Expand", [
    table,
    graph.add("Concat", sizes, { attributes: { axis: 0 } }),
  ]);
  const places = graph.add("Cast", [graph.add("Unsqueeze", ["position_ids", graph.ints([2])])], {
    attributes: { to: 1 },
  });
  const product = graph.add("Transpose", [graph.add("MatMul", [wide, places])], {
    attributes: { perm: [0, 1, 3, 2] },
  });
  const twice = graph.add("Concat", [product, product], { attributes: { axis: -1 } });
  const parts = [...SECTIONS, ...SECTIONS].map((_, i) => `${output}/${i}`);
  graph.add("Split", [graph.add(name, [twice]), graph.ints([...SECTIONS, ...SECTIONS])], {
    attributes: { axis: -1 },
    outputs: parts,
  });
  const chosen = parts.map((part, i) =>
    graph.add("Gather", [part, graph.ints([i % 3], [])], { attributes: { axis: 0 } })
  );
  const joined = graph.add("Concat", chosen, { attributes: { axis: -1 } });
  return graph.add("Unsqueeze", [joined, graph.ints([1])], { outputs: [output] });
}

function rotate(graph: DecoderBuilder, heads: string): string {
  const half = graph.sizes.headDim / 2;
  const outputs = [`${heads}/first`, `${heads}/second`] as const;
  graph.add("Split", [heads, graph.ints([half, half])], { attributes: { axis: -1 }, outputs });
  const turned = graph.add("Concat", [graph.add("Neg", [outputs[1]]), outputs[0]], {
    attributes: { axis: -1 },
  });
  return graph.add("Add", [
    graph.add("Mul", [heads, sectionedAngles(graph, "Cos")]),
    graph.add("Mul", [turned, sectionedAngles(graph, "Sin")]),
  ]);
}

function attend(graph: DecoderBuilder, layer: Layer): string {
  const { heads, kvHeads, headDim } = graph.sizes;
  const [qRows, kRows, vRows] = projections(graph, layer);
  const q = rotate(graph, splitHeads(graph, qRows, heads));
  const k = rotate(graph, splitHeads(graph, kRows, kvHeads));
  const v = splitHeads(graph, vRows, kvHeads);
  const keys = repeatHeads(graph, cached(graph, layer.pastKey, k, layer.presentKey));
  const values = repeatHeads(graph, cached(graph, layer.pastValue, v, layer.presentValue));
  const turned = graph.add("Transpose", [keys], { attributes: { perm: [0, 1, 3, 2] } });
  const scores = graph.add("Mul", [
    graph.add("MatMul", [q, turned]),
    graph.float(1 / Math.sqrt(headDim)),
  ]);
  const masked = graph.add("Add", [scores, additiveMask(graph)]);
  const weights = graph.add("Softmax", [masked], { attributes: { axis: -1 } });
  return joinHeads(graph, graph.add("MatMul", [weights, values]));
}

Deno.test("cutGraph() cuts a decoder in basic operators with rotary angles in sections", async () => {
  const model = decoder(attend, {
    inputs: [MASK, ["position_ids", "int64", [3, "batch_size", "sequence_length"]]],
  });
  const cut = await assertSameAsWhole(model);
  assert.deepEqual(cut.positions, {
    name: "position_ids",
    dtype: "int64",
    shape: [3, 1, "tokens"],
  });
  assert.equal(cut.attentions.length, 2);
});
