import assert from "node:assert/strict";
import { describeCut, summarizeCut } from "../../../src/cli/cut_report.ts";
import type { AttentionNode, GraphCut, Segment } from "../../../src/graph/graph_cut.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";

const hidden = { name: "hidden", dtype: "float16", shape: [1, "tokens", 64] } as const;
const logits = { name: "logits", dtype: "float16", shape: [1, "rows", 100] } as const;
const ids = { name: "input_ids", dtype: "int64", shape: [1, "tokens"] } as const;

const graph = {
  name: "segment",
  nodes: Array.from({ length: 7 }, (_, node) => makeNode("Relu", [`${node}`], [`${node + 1}`])),
  initializers: [],
  inputs: [],
  outputs: [],
  valueInfos: [],
  rest: [],
};

function segment(index: number, parts: Pick<Segment, "inputs" | "outputs">): Segment {
  return {
    index,
    model: {
      ...{ irVersion: 8, operatorSets: [], rest: [] },
      graph: { ...graph, initializers: [weights(2_500_000 * (index + 1))] },
    },
    ...parts,
  };
}

function weights(length: number) {
  const data = { kind: "file", file: "model.onnx", offset: 0, length } as const;
  return { name: "weights", dtype: "uint8", shape: [length], data, rest: [] } as const;
}

function table(name: string) {
  const data = { kind: "file", file: "model.onnx", offset: 0, length: 512 } as const;
  return { name, dtype: "float32", shape: [16, 8], data } as const;
}

const node: AttentionNode = {
  layer: 0,
  afterSegment: 0,
  name: "/layers.0/attention",
  q: { tensor: "qkv", tokenStride: 128, offset: 0 },
  k: { tensor: "qkv", tokenStride: 128, offset: 64 },
  v: { tensor: "qkv", tokenStride: 128, offset: 96 },
  output: { name: "attended", dtype: "float16", shape: [1, "tokens", 64] },
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  vHeadDim: 16,
  scale: 0.25,
  dtype: "float16",
  rotary: { cos: table("cos_cache"), sin: table("sin_cache"), dim: 8, interleaved: true },
  localWindow: 512,
  softcap: 50,
  sinks: table("sinks"),
};

const cut: GraphCut = {
  segments: [
    segment(0, { inputs: [ids], outputs: [hidden] }),
    segment(1, { inputs: [hidden, node.output], outputs: [logits] }),
  ],
  attentions: [node],
  states: [],
  experts: [],
  tokens: { ...ids, kind: "ids" },
  rows: { name: "logit_rows", dtype: "int64", shape: ["rows"] },
  output: { ...logits, width: 100 },
  maxPositions: 4096,
  notes: ["something to know"],
};

Deno.test("describeCut() lists the cache, the context, notes and each segment", () => {
  const text = describeCut(cut).join("\n");
  for (
    const words of [
      "segment 0: 7 nodes, 2.5 MB",
      "segment 1: 7 nodes, 5.0 MB",
      "float16, 128 bytes per token, 128 of them in layers with a window",
      "4,096 tokens, whose keys and values take 133 kB on a GPU, 266 kB on the CPU",
      "something to know",
    ]
  ) assert.ok(text.includes(words), `${words}\nin\n${text}`);
});

Deno.test("summarizeCut() names the size of the largest segment's weights", () => {
  assert.equal(summarizeCut(cut), "2 segments around 1 attentions, largest 5.0 MB");
});
