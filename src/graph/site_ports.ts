/**
 * Describes a cut's attentions and the tensors that cross between its segments.
 *
 * @module
 */
import { countElements } from "./file/dtype.ts";
import type { EncoderNode } from "./cut/encoder_cut.ts";
import type {
  AttentionNode,
  ExpertsNode,
  HeadRows,
  RecurrenceNode,
  TensorPort,
} from "./graph_cut.ts";
import type { GraphIndex } from "./graph_index.ts";
import type { TokenwiseGraph } from "./cut/prepare_graph.ts";
import { type Probes, SHORT_LENGTHS } from "./probes.ts";
import type { Node } from "./file/proto.ts";
import { Refusal } from "./refusal.ts";
import type { TokenAxes } from "./cut/token_axis.ts";

/** Whether an attention's operands have a type that the kernels support. */
function requireFloat(dtype: string | undefined, name: string): "float32" | "float16" {
  if (dtype === "float32" || dtype === "float16") return dtype;
  throw new Refusal(`The attention "${name}" works in ${dtype}; Hearth's in float32 or float16.`);
}

/**
 * Describes a tensor that crosses between segments.
 *
 * @throws {Refusal} when it is not a row per token.
 */
export function makePort(name: string, probes: Probes, axes: TokenAxes): TensorPort {
  const tokens = axes.of(name);
  if (tokens !== undefined && tokens.multiple !== 1) {
    throw new Refusal(`"${name}" crosses between segments with ${tokens.multiple} rows per token.`);
  }
  const { dtype } = probes.at(SHORT_LENGTHS[0]).value(name)!;
  const shape = axes.shape(name).map((size, axis) => axis === tokens?.axis ? "tokens" : size);
  return { name, dtype, shape };
}

/** ONNX Runtime's WebGPU operators that take an int64 tensor as their second input. */
const INDEXED = new Set(["Gather", "GatherBlockQuantized", "RotaryEmbedding"]);

/**
 * Whether an int64 input is read on the GPU. ONNX Runtime does all other int64 arithmetic on the CPU: an input placed
 * on the GPU would be copied back, after waiting for all GPU work.
 */
export function isIndex(input: string, graph: GraphIndex): boolean {
  return graph.consumers(input).every(({ opType, inputs }) =>
    INDEXED.has(opType) && inputs.every((name, position) => name !== input || position === 1)
  );
}

/** Number of positions in the position embedding tables. */
export function tableLimit(probes: Probes): number {
  let limit = Infinity;
  for (const { opType, inputs: [table, indices] } of probes.index.graph.nodes) {
    const rows = opType === "Gather" ? probes.index.constants.get(table!)?.shape[0] : undefined;
    if (rows === undefined || indices === probes.inputs.tokens.name) continue;
    const offset = probes.positionOffset(indices!);
    if (offset !== undefined) limit = Math.min(limit, rows - offset);
  }
  return limit;
}

/** The layout of a tensor's rows for a site. */
function rowsAt(tensor: string, axes: TokenAxes, offset = 0): HeadRows {
  const tokenStride = countElements(axes.shape(tensor)) / SHORT_LENGTHS[0].numTokens;
  return { tensor, tokenStride, offset };
}

/** The sites of all recurrences, in the order in which they run. */
export function describeStates(
  { states, probes, proof: { axes } }: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): RecurrenceNode[] {
  return states.flatMap(({ found: { name, recurrence }, node }) => {
    const level = levels.get(node);
    if (level === undefined) return [];
    const output = makePort(node.outputs[0]!, probes, axes);
    const dtype = requireFloat(output.dtype, name);
    const operands = node.inputs.map((input) => rowsAt(input, axes));
    return [{ name, recurrence, operands, output, dtype, afterSegment: level }];
  })
    .sort((a, b) => a.afterSegment - b.afterSegment)
    .map((site, index) => ({ index, ...site }));
}

/** The sites of all mixtures of experts, in the order in which they run. */
export function describeMixtures(
  { mixtures, probes, proof: { axes } }: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): ExpertsNode[] {
  return mixtures.flatMap(({ found: { name, mixture }, node }) => {
    const level = levels.get(node);
    if (level === undefined) return [];
    const output = makePort(node.outputs[0]!, probes, axes);
    const dtype = requireFloat(output.dtype, name);
    const [x, logits] = node.inputs as [string, string];
    const operands = [rowsAt(x, axes), rowsAt(logits, axes)] as const;
    return [{ name, mixture, operands, output, dtype, afterSegment: level }];
  })
    .sort((a, b) => a.afterSegment - b.afterSegment)
    .map((site, index) => ({ index, ...site }));
}

/** The sites of all attentions, in the order in which they run. */
export function describeSites(
  { sites, probes, proof: { axes } }: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): (AttentionNode & Pick<EncoderNode, "window">)[] {
  const described = sites.map(({ found, node }) => {
    const heads = [found.q, found.k, found.v].map(({ offset }, i) =>
      rowsAt(node.inputs[i]!, axes, offset)
    );
    const [q, k, v] = heads as [HeadRows, HeadRows, HeadRows];
    const output = makePort(node.outputs[0]!, probes, axes);
    const { name, headDim, vHeadDim, kvHeads, scale, rotary, localWindow, softcap, sinks } = found;
    const { window } = found;
    const dtype = requireFloat(output.dtype, name);
    return {
      ...{ name, q, k, v, output, heads: found.heads, kvHeads, headDim, vHeadDim, scale, dtype },
      ...{ rotary, localWindow, window, softcap, sinks, afterSegment: levels.get(node)! },
    };
  });
  return described
    .sort((a, b) => a.afterSegment - b.afterSegment)
    .map((site, layer) => ({ layer, ...site }));
}
