/**
 * Replaces spelled-out attentions and norms with fused operators of ONNX Runtime.
 *
 * @module
 */
import {
  findUnmaskedAttentions,
  makeProbeFeeds,
  type UnmaskedAttention,
} from "../attention/unmasked_attention.ts";
import { liftConstants } from "../file/lift_constants.ts";
import { Evaluation } from "../evaluate/evaluation.ts";
import {
  attribute,
  hasSubgraph,
  makeNode,
  type ModelProto,
  type Node,
  readFloatAttribute,
  readIntAttribute,
  withGraph,
} from "../file/proto.ts";
import { findLiveNodes, GraphIndex } from "../graph_index.ts";
import type { Value } from "../evaluate/value.ts";

/**
 * Replaces f32 attentions that see all keys by `MultiHeadAttention`, which never stores the scores of all pairs of
 * tokens. Whisper's encoder then takes 11 % less time and 120 MiB less memory.
 *
 * @returns the model itself if it has no such attention.
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
  const live = findLiveNodes(graph.nodes.map((node) => fused.get(node) ?? node), wanted);
  // Value infos may describe tensors that no longer exist.
  return withGraph(model, { ...graph, nodes: live, valueInfos: [] });
}

function isOfRows({ q, k, v }: UnmaskedAttention, run: Evaluation): boolean {
  return k.kind === "rows" && v.kind === "rows" &&
    [q, k.tensor, v.tensor].every((name) => run.value(name)?.dtype === "float32");
}

const MICROSOFT = "com.microsoft";
/** The epsilon of a `LayerNormalization` without the attribute. */
const DEFAULT_EPSILON = 1e-5;

interface Search {
  readonly index: GraphIndex;
  readonly run: Evaluation;
}

/**
 * Replaces `LayerNormalization(a + b)` and `LayerNormalization(a + (x + bias))` by ONNX Runtime's
 * `SkipLayerNormalization`, if both operands of the sum have the same shape. Other norms are unchanged. In steps of one
 * token, the host's work for each node takes most of the time.
 */
export function fuseSkipNorms(model: ModelProto): ModelProto {
  const { graph } = model;
  const index = new GraphIndex(graph);
  const search = { index, run: new Evaluation(index, makeProbeFeeds(index)) };
  const fused = new Map<Node, Node>();
  const dropped = new Set<Node>();
  for (const norm of graph.nodes) {
    const found = norm.opType === "LayerNormalization" ? fuse(norm, search) : undefined;
    if (found === undefined || fused.has(found.sum)) continue;
    fused.set(found.sum, found.node);
    dropped.add(norm);
    if (found.bias) dropped.add(found.bias);
  }
  if (fused.size === 0) return model;
  const nodes = graph.nodes.flatMap((node) => dropped.has(node) ? [] : [fused.get(node) ?? node]);
  const hasDomain = model.operatorSets.some(({ domain }) => domain === MICROSOFT);
  const own = hasDomain ? [] : [{ domain: MICROSOFT, version: 1 }];
  return {
    ...model,
    operatorSets: [...model.operatorSets, ...own],
    graph: { ...graph, nodes },
  };
}

interface Fused {
  /** The node that replaces the sum. */
  readonly node: Node;
  readonly sum: Node;
  /** The node that adds a bias, if that is fused too. */
  readonly bias: Node | undefined;
}

function fuse(norm: Node, { index, run }: Search): Fused | undefined {
  const [tensor, scale, shift = ""] = norm.inputs as [string, string, string?];
  const sum = index.producers.get(tensor);
  const shape = run.value(tensor)?.shape;
  const axis = readIntAttribute(norm, "axis") ?? -1;
  const isLast = axis === -1 || axis === (shape?.length ?? 0) - 1;
  if (sum?.opType !== "Add" || shape?.length !== 3 || !isLast) return undefined;
  if (norm.outputs.length > 1 || !isVector(scale, shape, index)) return undefined;
  if (shift !== "" && !isVector(shift, shape, index)) return undefined;
  const isAlike = (name: string) =>
    !index.constants.has(name) && run.value(name)?.shape.join() === shape.join();
  const [left, right] = sum.inputs as [string, string];
  if (!isAlike(left) || !isAlike(right)) return undefined;
  const biased = [left, right].map((name) => findBias(name, shape, index));
  const side = biased.findIndex((found) => found !== undefined);
  const { bias = undefined, input = left, vector = "" } = biased[side] ?? {};
  const skip = side === 1 ? left : right;
  const isNeeded = index.onlyConsumer(tensor) !== norm;
  const inputs = [input, skip, scale, shift, vector];
  while (inputs.at(-1) === "") inputs.pop();
  return {
    sum,
    bias,
    node: {
      ...norm,
      opType: "SkipLayerNormalization",
      domain: MICROSOFT,
      inputs,
      outputs: isNeeded ? [norm.outputs[0]!, "", "", tensor] : [norm.outputs[0]!],
      attributes: [
        attribute("epsilon", { float: readFloatAttribute(norm, "epsilon") ?? DEFAULT_EPSILON }),
      ],
    },
  };
}

/** Finds the addition of a constant vector, if only this sum reads its result. */
function findBias(
  tensor: string,
  shape: Value["shape"],
  index: GraphIndex,
): { readonly bias: Node; readonly input: string; readonly vector: string } | undefined {
  const bias = index.producers.get(tensor);
  if (bias?.opType !== "Add" || index.onlyConsumer(tensor) === undefined) return undefined;
  const [left, right] = bias.inputs as [string, string];
  if (isVector(right, shape, index)) return { bias, input: left, vector: right };
  return isVector(left, shape, index) ? { bias, input: right, vector: left } : undefined;
}

/** Whether a tensor is a constant with one element per column. */
function isVector(tensor: string, shape: Value["shape"], index: GraphIndex): boolean {
  return index.constants.get(tensor)?.shape.join() === String(shape.at(-1));
}
