import assert from "node:assert/strict";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { type AttributeValue, makeNode } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import { graphAttribute } from "../../fixtures/graphs/merged_decoder_graph.ts";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import { assertSameAsWhole } from "./compare.ts";
import {
  type AddAttention,
  decoder,
  type DecoderBuilder,
  inMemory,
  lengths,
  MASK,
  POSITIONS,
  projections,
} from "./test_decoder.ts";

const CONTEXT = 64;

/** Adds rotary tables of `dim / 2` angles. */
function tables(graph: DecoderBuilder, dim: number): [string, string] {
  const table = (name: string, of: (angle: number) => number) => {
    const data = Float32Array.from({ length: CONTEXT * dim / 2 }, (_, i) => {
      const [position, pair] = [Math.floor(i / (dim / 2)), i % (dim / 2)];
      return of(position * 100 ** (-2 * pair / dim));
    });
    return graph.constant(constant(`${name}_${dim}`, [CONTEXT, dim / 2], data));
  };
  return [table("cos", Math.cos), table("sin", Math.sin)];
}

/** Whether heads are normalised inside the attention, or by nodes in front of it. */
type Norms = "inside" | "in front";
const NORM_WEIGHTS = Float32Array.from({ length: 16 }, (_, i) => 0.5 + (i * 5) % 16 / 16);
const EPSILON = { float: 1e-3 };

/** Normalises each head of the rows. */
function normHeads(
  graph: DecoderBuilder,
  rows: string,
  { count, weights }: { readonly count: number; readonly weights: string },
): string {
  const { headDim } = graph.sizes;
  const split = graph.add("Reshape", [rows, graph.ints([0, 0, count, headDim])]);
  const norm = graph.add("SimplifiedLayerNormalization", [split, weights], {
    attributes: { axis: -1, epsilon: EPSILON, stash_type: 1 },
  });
  return graph.add("Reshape", [norm, graph.ints([0, 0, count * headDim])]);
}

/** Makes a GroupQueryAttention with these attributes. */
function gqa(
  attributes: Readonly<Record<string, AttributeValue>>,
  options: {
    packed?: boolean;
    rotaryDim?: number;
    sinks?: boolean;
    norms?: Norms;
    isQuantized?: boolean;
  } = {},
): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads, headDim } = graph.sizes;
    const parts = projections(graph, layer);
    const norms = options.norms
      ? ["q", "k"].map((kind) => constant(`${kind}_${layer.index}`, [headDim], NORM_WEIGHTS))
        .map((weights) => graph.constant(weights))
      : [];
    if (options.norms === "in front") {
      [heads, kvHeads].forEach((count, i) =>
        parts[i] = normHeads(graph, parts[i]!, { count, weights: norms[i]! })
      );
    }
    const packed = options.packed && graph.add("Concat", parts, { attributes: { axis: -1 } });
    const rotary = options.rotaryDim ? tables(graph, options.rotaryDim) : ["", ""];
    return graph.add("GroupQueryAttention", [
      ...(packed ? [packed, "", ""] : parts),
      layer.pastKey,
      layer.pastValue,
      ...lengths(graph),
      ...rotary,
      ...(options.sinks ? ["", "", graph.weights([heads], 2)] : []),
      ...(options.norms === "inside" ? ["", "", "", "", "", ...norms] : []),
      ...(options.isQuantized ? ["", "", "", graph.float(0.1), graph.float(0.1)] : []),
    ], {
      domain: "com.microsoft",
      outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: heads, kv_num_heads: kvHeads, ...attributes },
    });
  };
}

Deno.test("cutGraph() caches float32 if a GroupQueryAttention quantises its cache", async () => {
  const attributes = { k_quant_type: "PER_TENSOR", v_quant_type: "PER_TENSOR" };
  const model = decoder(gqa(attributes, { isQuantized: true }), { cacheDtype: "int8" });
  const { attentions } = await assertSameAsWhole(model, { truth: decoder(gqa({})) });
  assert.equal(attentions[0]!.dtype, "float32");
});

Deno.test("cutGraph() cuts GroupQueryAttention without rotary and reads an absent scale or 0 as 1/sqrt(headDim)", async () => {
  for (const attributes of [{}, { scale: { float: 0 } }]) {
    const { attentions, segments } = await assertSameAsWhole(decoder(gqa(attributes)));
    assert.equal(segments.length, 3);
    assert.equal(attentions[0]!.scale, 0.25);
    assert.deepEqual([attentions[0]!.heads, attentions[0]!.kvHeads, attentions[0]!.headDim], [
      4,
      2,
      16,
    ]);
    assert.equal(attentions[0]!.rotary, undefined);
  }
});

Deno.test("cutGraph() keeps a scale and reports no window, cap or sinks if there are none", async () => {
  const { attentions } = await assertSameAsWhole(decoder(gqa({ scale: { float: 0.5 } })));
  assert.equal(attentions[1]!.scale, 0.5);
  assert.deepEqual(
    [attentions[1]!.localWindow, attentions[1]!.softcap, attentions[1]!.sinks],
    [undefined, undefined, undefined],
  );
});

Deno.test("cutGraph() names one tensor for packed q, k and v", async () => {
  const { attentions: [node] } = await assertSameAsWhole(
    decoder(gqa({ do_rotary: 1 }, { packed: true, rotaryDim: 16 })),
  );
  assert.equal(new Set([node!.q.tensor, node!.k.tensor, node!.v.tensor]).size, 1);
  assert.deepEqual([node!.q.offset, node!.k.offset, node!.v.offset], [0, 64, 96]);
  assert.equal(node!.q.tokenStride, 128);
});

for (const interleaved of [0, 1]) {
  for (const rotaryDim of [16, 32]) {
    const partial = rotaryDim === 16 ? "half of each head" : "whole heads";
    Deno.test(`cutGraph() keeps rotary over ${partial}, interleaved=${interleaved}`, async () => {
      const attention = gqa({ do_rotary: 1, rotary_interleaved: interleaved }, { rotaryDim });
      const cut = await assertSameAsWhole(decoder(attention, { sizes: { headDim: 32 } }));
      const { rotary } = cut.attentions[0]!;
      assert.deepEqual([rotary!.dim, rotary!.interleaved], [rotaryDim, interleaved === 1]);
      assert.equal(cut.attentions[1]!.rotary!.cos.name, rotary!.cos.name);
      assert.equal(cut.positions, undefined);
    });
  }
}

Deno.test("cutGraph() limits positions to the rows of the rotary table", async () => {
  const model = decoder(gqa({ do_rotary: 1 }, { rotaryDim: 16 }));
  assert.equal((await assertSameAsWhole(model, { contextLength: 1000 })).maxPositions, CONTEXT);
  assert.equal(
    (await assertSameAsWhole(model, { contextLength: CONTEXT })).maxPositions,
    undefined,
  );
});

for (const window of [1, 3]) {
  Deno.test(`cutGraph() keeps local_window_size=${window} as the visible keys, including the query's own`, async () => {
    const cut = await assertSameAsWhole(decoder(gqa({ local_window_size: window })));
    assert.equal(cut.attentions[0]!.localWindow, window);
  });
}

Deno.test("cutGraph() keeps softcap", async () => {
  const cut = await assertSameAsWhole(decoder(gqa({ softcap: { float: 0.75 } })));
  assert.equal(cut.attentions[0]!.softcap, 0.75);
});

Deno.test("cutGraph() keeps head_sink", async () => {
  const cut = await assertSameAsWhole(decoder(gqa({}, { sinks: true })));
  assert.deepEqual(cut.attentions[0]!.sinks!.shape, [4]);
});

Deno.test("cutGraph() reads smooth_softmax as sinks of zero", async () => {
  const cut = await assertSameAsWhole(decoder(gqa({ smooth_softmax: 1 })));
  assert.deepEqual(cut.attentions[0]!.sinks!.shape, [4]);
});

/** Adds rotary tables that an `If` selects: sequences longer than `limit` read tables with doubled values. */
function chosenTables(graph: DecoderBuilder, limit: number): [string, string] {
  const [cos, sin] = tables(graph, 16);
  const long = [cos, sin].map((name) => {
    const { data } = graph.initializers.find((tensor) => tensor.name === name)!;
    assert.ok(data.kind === "memory");
    const values = new Float32Array(data.bytes.slice().buffer).map((x) => 2 * x);
    return graph.constant(constant(`long_${name}`, [CONTEXT, 8], values));
  });
  const total = graph.add("Gather", [graph.add("Shape", ["attention_mask"]), graph.ints([1], [])]);
  const isLong = graph.add("Greater", [total, graph.ints([limit], [])]);
  const branch = (name: string, sources: readonly string[]) => {
    const nodes = sources.map((source, i) => makeNode("Identity", [source], [`${name}_${i}`]));
    return { name, message: graphAttribute(name, nodes, nodes.flatMap(({ outputs }) => outputs)) };
  };
  graph.nodes.push({
    ...makeNode("If", [isLong], ["chosen_cos", "chosen_sin"]),
    attributes: [branch("then_branch", long), branch("else_branch", [cos, sin])],
  });
  return ["chosen_cos", "chosen_sin"];
}

Deno.test("cutGraph() joins rotary tables that are selected by the sequence's length (LongRoPE)", async () => {
  const attention: AddAttention = (graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const rotary = graph.nodes.some(({ opType }) => opType === "If")
      ? ["chosen_cos", "chosen_sin"]
      : chosenTables(graph, 20);
    return graph.add("GroupQueryAttention", [
      ...projections(graph, layer),
      ...[layer.pastKey, layer.pastValue, ...lengths(graph), ...rotary],
    ], {
      domain: "com.microsoft",
      outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: heads, kv_num_heads: kvHeads, do_rotary: 1 },
    });
  };
  const bytes = decoder(attention);
  const files = inMemory(bytes);
  const model = await readModel(files, "model.onnx");
  const result = cutGraph(model, { contextLength: CONTEXT });
  assert.ok("cut" in result, JSON.stringify(result));
  const { longFrom, maxPositions, attentions: [node] } = result.cut;
  assert.deepEqual([longFrom, maxPositions], [20, undefined]);
  const { cos } = node!.rotary!;
  assert.deepEqual(cos.shape, [20 + CONTEXT, 8]);
  const rows = new Float32Array((await readStoredBytes(cos, files)).slice().buffer);
  // Row 3 of the long table has twice the values of row 3 of the short one.
  assert.deepEqual(
    rows.slice((20 + 3) * 8, (20 + 4) * 8),
    rows.slice(3 * 8, 4 * 8).map((x) => 2 * x),
  );
  // If no sequence is that long, only the short table remains.
  const short = cutGraph(model, { contextLength: 20 });
  assert.ok("cut" in short);
  assert.deepEqual([short.cut.longFrom, short.cut.attentions[0]!.rotary!.cos.shape[0]], [
    undefined,
    CONTEXT,
  ]);
});

Deno.test("cutGraph() removes the offset of positions to the rows of long sequences (LongRoPE without If)", async () => {
  const attention: AddAttention = (graph, layer) => {
    const [q, k, v] = projections(graph, layer);
    if (!graph.nodes.some(({ outputs }) => outputs.includes("shifted"))) {
      const last = graph.add("ReduceMax", ["position_ids"]);
      const isLong = graph.add("GreaterOrEqual", [last, graph.ints([20], [])]);
      const flag = graph.add("Cast", [isLong], { attributes: { to: 7 } });
      const shift = graph.add("Mul", [flag, graph.ints([20], [])]);
      graph.add("Add", [shift, "position_ids"], { outputs: ["shifted"] });
    }
    const rotary = tables(graph, 16);
    const rotate = (rows: string) =>
      graph.add("RotaryEmbedding", [rows, "shifted", ...rotary], { domain: "com.microsoft" });
    const { heads, kvHeads } = graph.sizes;
    return graph.add("GroupQueryAttention", [
      ...[rotate(q), rotate(k), v, layer.pastKey, layer.pastValue, ...lengths(graph)],
    ], {
      domain: "com.microsoft",
      outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: heads, kv_num_heads: kvHeads },
    });
  };
  const bytes = decoder(attention, { inputs: [MASK, POSITIONS], opset: 18 });
  const model = await readModel(inMemory(bytes), "model.onnx");
  const read = (contextLength: number) => {
    const result = cutGraph(model, { contextLength });
    assert.ok("cut" in result, JSON.stringify(result));
    return result.cut;
  };
  // The table has rows for all positions of short sequences, then of long ones.
  assert.deepEqual([read(CONTEXT).longFrom, read(CONTEXT).maxPositions], [20, CONTEXT - 20]);
  assert.equal(read(20).longFrom, undefined);
});

Deno.test("cutGraph() cuts GroupQueryAttention with built-in norms, which ONNX Runtime lacks on the CPU", async () => {
  for (const packed of [false, true]) {
    const options = { packed, rotaryDim: 16 };
    const attributes = { do_rotary: 1, qk_norm_epsilon: EPSILON };
    const model = decoder(gqa(attributes, { ...options, norms: "inside" }));
    const truth = decoder(gqa({ do_rotary: 1 }, { ...options, norms: "in front" }));
    await assertSameAsWhole(model, { truth });
  }
});
