/**
 * Describes a cut's attentions and the tensors that cross between its segments.
 *
 * @module
 */
import { countElements } from "./file/dtype.ts";
import type {
  AttentionNode,
  EncoderNode,
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

/** The layout of the rows in which a kernel node reads a tensor. */
function rowsAt(tensor: string, axes: TokenAxes, offset = 0): HeadRows {
  const tokenStride = countElements(axes.shape(tensor)) / SHORT_LENGTHS[0].numTokens;
  return { tensor, tokenStride, offset };
}

/** What all kinds of kernel nodes have. */
interface Described {
  readonly name: string;
  readonly output: TensorPort;
  readonly dtype: "float32" | "float16";
  readonly afterSegment: number;
}

/** Describes kernel nodes of one kind that are part of the graph still, in the order in which they run. */
function describeNodes<Found extends { readonly name: string }, Own>(
  replaced: readonly { readonly found: Found; readonly node: Node }[],
  { probes, proof: { axes } }: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
  describe: (found: Found, inputs: readonly string[], axes: TokenAxes) => Own,
): (Own & Described)[] {
  return replaced.flatMap(({ found, node }) => {
    const afterSegment = levels.get(node);
    if (afterSegment === undefined) return [];
    const { name } = found;
    const output = makePort(node.outputs[0]!, probes, axes);
    const dtype = requireFloat(output.dtype, name);
    return [{ ...describe(found, node.inputs, axes), name, output, dtype, afterSegment }];
  }).sort((a, b) => a.afterSegment - b.afterSegment);
}

export function describeStates(
  graph: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): RecurrenceNode[] {
  return describeNodes(graph.states, graph, levels, ({ recurrence }, inputs, axes) => {
    return { recurrence, operands: inputs.map((input) => rowsAt(input, axes)) };
  }).map((node, index) => ({ index, ...node }));
}

export function describeMixtures(
  graph: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): ExpertsNode[] {
  return describeNodes(graph.mixtures, graph, levels, ({ mixture }, inputs, axes) => {
    const [x, logits] = inputs as [string, string];
    return { mixture, operands: [rowsAt(x, axes), rowsAt(logits, axes)] as const };
  }).map((node, index) => ({ index, ...node }));
}

export function describeAttentions(
  graph: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): (AttentionNode & Pick<EncoderNode, "window">)[] {
  return describeNodes(graph.attentions, graph, levels, (found, inputs, axes) => {
    const [q, k, v] = [found.q, found.k, found.v].map(({ offset }, i) =>
      rowsAt(inputs[i]!, axes, offset)
    ) as [HeadRows, HeadRows, HeadRows];
    const { heads, kvHeads, headDim, vHeadDim, scale } = found;
    const { rotary, localWindow, window, softcap, sinks } = found;
    return {
      ...{ q, k, v, heads, kvHeads, headDim, vHeadDim, scale },
      ...{ rotary, localWindow, window, softcap, sinks },
    };
  }).map((node, layer) => ({ layer, ...node }));
}
