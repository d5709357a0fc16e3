import assert from "node:assert/strict";
import { openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { fuseAttention } from "../../../src/graph/rewrite/fused_operators.ts";
import type { ModelProto } from "../../../src/graph/file/proto.ts";
import { writeModel } from "../../../src/graph/file/proto_codec.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { attention, encoderLayer } from "../../fixtures/graphs/graph_layers.ts";
import { decodeModel } from "../../fixtures/graphs/decode_model.ts";

const [WIDTH, HEADS, TOKENS, KEYS] = [24, 3, 37, 11];

/** Builds a layer with self-attention, then an attention to other tokens. */
async function buildEncoder(): Promise<ModelProto> {
  const graph = new GraphBuilder();
  const hidden = encoderLayer(graph, { queries: "x", width: WIDTH, heads: HEADS });
  const mixed = attention(graph, {
    queries: hidden,
    context: "context",
    width: WIDTH,
    heads: HEADS,
  });
  graph.add("Identity", [mixed], { outputs: ["y"] });
  return await decodeModel(graph.build({
    inputs: [
      ["x", "float32", ["batch", "tokens", WIDTH]],
      ["context", "float32", ["batch", "keys", WIDTH]],
    ],
    outputs: [["y", "float32", ["batch", "tokens", WIDTH]]],
  }));
}

function makeRows(numInputs: number, numTokens: number): Tensor {
  const data = Float32Array.from({ length: numInputs * numTokens * WIDTH }, (_, i) => {
    return 2 * Math.sin(i * 1.7);
  });
  return new Tensor("float32", data, [numInputs, numTokens, WIDTH]);
}

async function run(model: ModelProto): Promise<Tensor> {
  const session = await openSession(writeModel(model), { runtime: "native", threads: 1 });
  const { y } = await session.run({ x: makeRows(2, TOKENS), context: makeRows(2, KEYS) });
  await session.release();
  return y!;
}

function countNodes({ graph }: ModelProto, opType: string): number {
  return graph.nodes.filter((node) => node.opType === opType).length;
}

Deno.test("fuseAttention() does not change what a graph computes", async () => {
  const model = await buildEncoder();
  const fused = fuseAttention(model);
  assert.equal(countNodes(model, "Softmax"), 2);
  assert.equal(countNodes(fused, "Softmax"), 0);
  assert.equal(countNodes(fused, "MultiHeadAttention"), 2);
  const [before, after] = [await run(model), await run(fused)];
  assert.deepEqual(after.dims, before.dims);
  (before.data as Float32Array).forEach((value, i) => {
    const got = (after.data as Float32Array)[i]!;
    assert.ok(Math.abs(got - value) < 1e-5, `${i}: ${got} for ${value}`);
  });
});

Deno.test("fuseAttention() does not change attentions with a mask", async () => {
  const graph = new GraphBuilder();
  const mixed = attention(graph, { queries: "x", width: WIDTH, heads: HEADS, mask: "mask" });
  graph.add("Identity", [mixed], { outputs: ["y"] });
  const model = await decodeModel(graph.build({
    inputs: [
      ["x", "float32", [1, "tokens", WIDTH]],
      ["mask", "float32", [1, 1, "tokens", "tokens"]],
    ],
    outputs: [["y", "float32", [1, "tokens", WIDTH]]],
  }));
  assert.equal(fuseAttention(model), model);
});

Deno.test("fuseAttention() does not change attentions whose weights have other readers", async () => {
  const graph = new GraphBuilder();
  attention(graph, { queries: "x", width: WIDTH, heads: HEADS });
  const softmax = graph.nodes.find(({ opType }) => opType === "Softmax")!;
  const model = await decodeModel(graph.build({
    inputs: [["x", "float32", [1, "tokens", WIDTH]]],
    outputs: [[softmax.outputs[0]!, "float32", [1, HEADS, "tokens", "tokens"]]],
  }));
  assert.equal(fuseAttention(model), model);
});
