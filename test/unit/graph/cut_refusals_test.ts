import assert from "node:assert/strict";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { ATTRIBUTE, makeNode, type Node } from "../../../src/graph/file/proto.ts";
import { MessageWriter } from "../../../src/graph/file/wire.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";
import { addFalconBias, additiveMask, alibi, joinSinks, spelledOut } from "./spelled_out.ts";
import {
  type AddAttention,
  decoder,
  type DecoderBuilder,
  inMemory,
  type Layer,
  lengths,
  MASK,
  projections,
} from "./test_decoder.ts";

async function refusal(model: Uint8Array): Promise<string> {
  const result = cutGraph(await readModel(inMemory(model), "model.onnx"), { contextLength: 64 });
  assert.ok("refused" in result, "the graph was cut");
  return result.refused;
}

/** Makes a GroupQueryAttention with inputs and attributes that a test may change. */
function gqa(
  spoil: {
    attributes?: Readonly<Record<string, number | string>>;
    inputs?: (graph: DecoderBuilder, inputs: string[], layer: Layer) => string[];
  } = {},
): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const inputs = [
      ...projections(graph, layer),
      layer.pastKey,
      layer.pastValue,
      ...lengths(graph),
    ];
    return graph.add("GroupQueryAttention", spoil.inputs?.(graph, inputs, layer) ?? inputs, {
      domain: "com.microsoft",
      name: `/layers.${layer.index}/attention`,
      outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: heads, kv_num_heads: kvHeads, ...spoil.attributes },
    });
  };
}

/** Adds a node between the attention and what follows it. */
function after(change: (graph: DecoderBuilder, rows: string) => string): AddAttention {
  return (graph, layer) => change(graph, gqa()(graph, layer));
}

const masked = (graph: DecoderBuilder, scores: string) =>
  graph.add("Add", [scores, additiveMask(graph)]);

/** Adds the square roots of the positions of keys, `[total]`. */
function rootOfPositions(graph: DecoderBuilder): string {
  const total = graph.add("Gather", [
    graph.add("Shape", ["attention_mask"]),
    graph.ints([1], []),
  ]);
  const keys = graph.add("Range", [graph.ints([0], []), total, graph.ints([1], [])]);
  return graph.add("Sqrt", [graph.add("Cast", [keys], { attributes: { to: 1 } })]);
}

/** Changes that make a decoder unsupported, and the expected reasons. */
const REFUSALS: Readonly<Record<string, readonly [() => Uint8Array, RegExp]>> = {
  "a bias that is not in proportion to the distance": [
    () =>
      decoder(spelledOut({
        scores: (graph, scores) =>
          masked(graph, graph.add("Add", [scores, graph.add("Neg", [rootOfPositions(graph)])])),
      })),
    /adds a bias to the scores that is not in proportion to the distance of keys/,
  ],
  "a spelled-out attention with sinks and a bias by distance": [
    () => {
      const { scores, weights } = joinSinks("last");
      return decoder(
        spelledOut({
          weights,
          scores: (graph, own, layer) => scores(graph, addFalconBias(graph, own), layer),
        }),
        { opset: 18 },
      );
    },
    /has sinks and a bias by distance/,
  ],
  "a mask that lets tokens see the future": [
    () => decoder(spelledOut({ scores: (_graph, scores) => scores })),
    /is not causal: with 0 cached and 3 new tokens, token 0/,
  ],
  "a score function that is neither scale nor tanh": [
    () =>
      decoder(spelledOut({
        scores: (graph, scores) => masked(graph, graph.add("Mul", [scores, scores])),
      })),
    /neither scaled nor capped/,
  ],
  "weights that are changed after the softmax": [
    () =>
      decoder(spelledOut({
        scores: masked,
        weights: (graph, weights) => graph.add("Mul", [weights, graph.float(0.5)]),
      })),
    /changes keys, values or weights/,
  ],
  "a cache in another type": [
    () => decoder(spelledOut({ scores: masked }), { cacheDtype: "int8" }),
    /Its cache is int8; Hearth's is float32 or float16/,
  ],
  "attention in both directions": [
    () => decoder(gqa({ attributes: { causal: 0 } })),
    /is not causal/,
  ],
  "an attention bias that is no mask": [
    () =>
      decoder(gqa({
        inputs: (graph, inputs) => [...inputs, "", "", "", graph.weights([1, 1, 1, 1])],
      })),
    /like a relative position bias/,
  ],
  "a GroupQueryAttention with sinks and a bias by distance": [
    () =>
      decoder(gqa({
        inputs: (graph, inputs) => [
          ...[...inputs, "", "", "", alibi(graph)],
          graph.weights([graph.sizes.heads]),
        ],
      })),
    /has sinks and a bias by distance/,
  ],
  "rotary tables that are computed at run time": [
    () =>
      decoder(gqa({
        attributes: { do_rotary: 1 },
        inputs: (graph, inputs) => {
          const table = graph.add("Mul", [
            graph.weights([64, 8]),
            graph.add("Cast", ["total_length"], { attributes: { to: 1 } }),
          ]);
          return [...inputs, table, table];
        },
      })),
    /which should be a constant but is computed by Mul/,
  ],
  "lengths that are not those of the sequence": [
    () =>
      decoder(gqa({
        inputs: (graph, [q, k, v, pastKey, pastValue, seqlens, total]) => {
          const one = graph.constant(constant("one", [1], Int32Array.of(1)));
          return [q!, k!, v!, pastKey!, pastValue!, graph.add("Sub", [seqlens!, one]), total!];
        },
      })),
    /as lengths, but it holds something else/,
  ],
  "a cache that is computed instead of being an input": [
    () =>
      decoder(gqa({
        inputs: (
          graph,
          [q, k, v, pastKey, ...rest],
        ) => [q!, k!, v!, graph.add("Neg", [pastKey!]), ...rest],
      })),
    /is computed; it should be an input/,
  ],
  "an attention without its own keys, over keys that another layer cached": [
    () =>
      decoder(gqa({
        inputs: (_graph, [q, , , ...rest]) => [q!, "", "", ...rest],
      })),
    /heads of 8 by its query and of 16 by its cache; it may read another layer's keys/,
  ],
  "no cache": [
    () =>
      decoder(gqa({ inputs: (_graph, [q, k, v, , , ...rest]) => [q!, k!, v!, "", "", ...rest] })),
    /has no cache/,
  ],
  "a convolution along the tokens": [
    () =>
      decoder(after((graph, rows) => {
        const channels = graph.add("Transpose", [rows], { attributes: { perm: [0, 2, 1] } });
        const conv = graph.add("Conv", [channels, graph.weights([64, 1, 3])], {
          attributes: { group: 64, pads: [2, 0] },
        });
        return graph.add("Transpose", [conv], { attributes: { perm: [0, 2, 1] } });
      })),
    /Conv .* may mix tokens/,
  ],
  "values of each token from another input": [
    () =>
      decoder(
        (graph, layer) => {
          const own = graph.add("Gather", ["per_layer_inputs", graph.ints([layer.index], [])], {
            attributes: { axis: 2 },
          });
          const added = graph.add("MatMul", [own, graph.weights([8, graph.sizes.hidden])]);
          const input = graph.add("Add", [layer.input, added]);
          return gqa()(graph, { ...layer, input });
        },
        { inputs: [MASK, ["per_layer_inputs", "float32", ["batch", "tokens", 2, 8]]] },
      ),
    /nothing is known of the input "per_layer_inputs"/,
  ],
  "a mean over the tokens": [
    () =>
      decoder(after((graph, rows) => {
        const mean = graph.add("ReduceMean", [rows], { attributes: { axes: [1], keepdims: 1 } });
        return graph.add("Sub", [rows, mean]);
      })),
    /ReduceMean .* mixes tokens/,
  ],
  "a softmax over the tokens": [
    () =>
      decoder(after((graph, rows) => graph.add("Softmax", [rows], { attributes: { axis: 1 } }))),
    /Softmax .* mixes tokens/,
  ],
  "tokens in reverse": [
    () =>
      decoder(
        after((graph, rows) =>
          graph.add("Slice", [
            rows,
            graph.ints([-1]),
            graph.ints([-1000]),
            graph.ints([1]),
            graph.ints([-1]),
          ])
        ),
      ),
    /Slice .* mixes tokens/,
  ],
  "a reshape that interleaves tokens and heads": [
    () =>
      decoder(after((graph, rows) => {
        const heads = graph.add("Transpose", [rows], { attributes: { perm: [0, 2, 1] } });
        return graph.add("Reshape", [heads, graph.ints([1, -1, 64])]);
      })),
    /Reshape .* mixes tokens/,
  ],
  "a product of every token with every other": [
    () =>
      decoder(after((graph, rows) => {
        const turned = graph.add("Transpose", [rows], { attributes: { perm: [0, 2, 1] } });
        return graph.add("MatMul", [graph.add("MatMul", [rows, turned]), rows]);
      })),
    /a row per pair of tokens/,
  ],
  "a computation with the number of tokens": [
    () =>
      decoder(after((graph, rows) => {
        const tokens = graph.add("Gather", [graph.add("Shape", [rows]), graph.ints([1], [])]);
        return graph.add("Div", [rows, graph.add("Cast", [tokens], { attributes: { to: 1 } })]);
      })),
    /computes with the number of tokens/,
  ],
  "a mask that nodes besides the attentions read": [
    () =>
      decoder(after((graph, rows) => {
        const weights = graph.add("Cast", ["attention_mask"], { attributes: { to: 1 } });
        return graph.add("Mul", [rows, graph.add("ReduceSum", [weights])]);
      })),
    /needs "attention_mask" even without the attentions/,
  ],
};

for (const [what, [model, message]] of Object.entries(REFUSALS)) {
  Deno.test(`cutGraph() refuses ${what}`, async () => {
    assert.match(await refusal(model()), message);
  });
}

Deno.test("cutGraph() refuses a graph that chooses a branch at run time", async () => {
  const branch = new MessageWriter().text(ATTRIBUTE.name, "then_branch")
    .message(ATTRIBUTE.graph, new MessageWriter()).finish();
  const node: Node = {
    ...makeNode("If", ["use_cache_branch"], ["logits"], { name: "/optimum/if" }),
    attributes: [{ name: "then_branch", message: branch }],
  };
  const model = buildModel({
    nodes: [node],
    inputs: [
      ["input_ids", "int64", ["batch", "tokens"]],
      MASK,
      ["use_cache_branch", "bool", [1]],
      ["past_key_values.0.key", "float32", ["batch", 2, "past", 16]],
    ],
    outputs: [["logits", "float32", ["batch", "tokens", 29]]],
  });
  assert.match(
    await refusal(model),
    /no attention over a cache .* If "\/optimum\/if" has graphs of its own/,
  );
});

Deno.test("cutGraph() refuses an encoder and names the supported graphs", async () => {
  const model = buildModel({
    nodes: [makeNode("Identity", ["input_features"], ["last_hidden_state"])],
    inputs: [["input_features", "float32", ["batch", 80, 3000]]],
    outputs: [["last_hidden_state", "float32", ["batch", 80, 3000]]],
  });
  assert.match(await refusal(model), /neither input_ids nor inputs_embeds, but input_features/);
});
