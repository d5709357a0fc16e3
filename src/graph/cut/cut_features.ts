/**
 * Cuts an encoder of audio or image features, whose tokens all attend to each other. Hearth's kernel runs the
 * attentions without storing the scores of all pairs of tokens.
 *
 * The inputs of a run all have the same size, and each has its own index on the first axis. So segments may mix the
 * tokens of an input.
 *
 * @module
 */
import { KERNEL_DOMAIN } from "../attention/replace_attentions.ts";
import { liftConstants } from "../file/lift_constants.ts";
import type { EncoderNode, Segment, TensorPort } from "../graph_cut.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import { findLiveNodes, GraphIndex } from "../graph_index.ts";
import { makeNode, type ModelProto, type Node } from "../file/proto.ts";
import { buildSegment, type Partition, partitionNodes } from "./segments.ts";
import { findUnmaskedAttentions, type UnmaskedAttention } from "../attention/unmasked_attention.ts";

/** A cut encoder. In all shapes `"rows"` stands for the number of inputs that are encoded together. */
export interface FeatureCut {
  readonly segments: readonly Segment[];
  /** Operands and results are `["rows", tokens, heads * size]`. */
  readonly attentions: readonly EncoderNode[];
  readonly output: TensorPort;
  /** Number of tokens of an input in the attentions. */
  readonly numTokens: number;
}

interface FeatureAttention {
  readonly found: UnmaskedAttention;
  readonly node: Node;
}

/**
 * Cuts an encoder at its attentions.
 *
 * @param wanted the output that is kept.
 * @returns `undefined` if no attention is recognized, or if attentions have different numbers of tokens.
 */
export function cutFeatures(model: ModelProto, wanted: string): FeatureCut | undefined {
  const index = new GraphIndex(liftConstants(model.graph));
  const { found, run } = findUnmaskedAttentions(index);
  const attentions = found.filter((each) => isSelfAttention(each, run)).map(
    (attention): FeatureAttention => {
      const { q, k, v, output } = attention;
      const options = { domain: KERNEL_DOMAIN };
      return {
        found: attention,
        node: makeNode("AttentionNode", [q, k.tensor, v.tensor], [output], options),
      };
    },
  );
  const lengths = new Set(attentions.map(({ found }) => run.value(found.q)!.shape[1]!));
  const [numTokens] = lengths;
  if (numTokens === undefined || lengths.size > 1) return undefined;
  const replaced = replaceAttentions(index, attentions, wanted);
  const toPort = (name: string): TensorPort => {
    const { dtype, shape } = run.value(name)!;
    return { name, dtype, shape: ["rows", ...shape.slice(1)] };
  };
  const partition = partitionNodes(replaced, new Set(), wanted);
  const crossing = partition.segments.flatMap(({ inputs, outputs }) => [...inputs, ...outputs]);
  if (crossing.some((name) => run.value(name) === undefined)) return undefined;
  return {
    segments: partition.segments.map(({ nodes, inputs, outputs }, segment) =>
      buildSegment(model, replaced.constants, {
        index: segment,
        nodes,
        inputs: inputs.map(toPort),
        outputs: outputs.map(toPort),
      })
    ),
    attentions: describeAttentions(attentions, partition, run),
    output: toPort(wanted),
    numTokens,
  };
}

/** Whether the operands of an attention are rows of the same tokens, in a type that the kernel supports. */
function isSelfAttention({ q, k, v, output }: UnmaskedAttention, run: Evaluation): boolean {
  if (k.kind !== "rows" || v.kind !== "rows") return false;
  const [query, ...others] = [q, k.tensor, v.tensor, output].map((name) => run.value(name));
  const hasType = query?.dtype === "float32" || query?.dtype === "float16";
  return hasType &&
    others.every((value) =>
      value?.dtype === query.dtype && value.shape.join() === query.shape.join()
    );
}

function replaceAttentions(
  index: GraphIndex,
  attentions: readonly FeatureAttention[],
  wanted: string,
): GraphIndex {
  const { graph } = index;
  const nodeByOutput = new Map(
    attentions.map(({ found, node }) => [index.producers.get(found.output)!, node]),
  );
  const nodes = findLiveNodes(graph.nodes.map((node) => nodeByOutput.get(node) ?? node), [wanted]);
  const outputs = graph.outputs.filter(({ name }) => name === wanted);
  return new GraphIndex({ ...graph, nodes, outputs });
}

function describeAttentions(
  attentions: readonly FeatureAttention[],
  { nodeLevels }: Partition,
  run: Evaluation,
): EncoderNode[] {
  return attentions.map(({ found, node }, layer) => {
    const { q, k, v, output, heads, scale } = found;
    const { dtype, shape } = run.value(q)!;
    const [, numTokens, width] = shape as [number, number, number];
    const rows = (tensor: string) => ({ tensor, tokenStride: width, offset: 0 });
    const size = width / heads;
    return {
      layer,
      afterSegment: nodeLevels.get(node)!,
      name: output,
      ...{ q: rows(q), k: rows(k.tensor), v: rows(v.tensor) },
      output: { name: output, dtype, shape: ["rows", numTokens, width] },
      ...{ heads, kvHeads: heads, headDim: size, vHeadDim: size, scale },
      dtype: dtype as "float32" | "float16",
    };
  });
}
