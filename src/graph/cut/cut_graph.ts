/**
 * Cuts the graph of a decoder or an encoder into segments and kernel nodes. Only the decoded file is needed, not the
 * weights.
 *
 * @module
 */
import type {
  AttentionNode,
  EncoderAnswer,
  EncoderCut,
  EncoderNode,
  EncoderTail,
  ExpertsNode,
  GraphCut,
  HeadRows,
  RecurrenceNode,
  TensorPort,
} from "../graph_cut.ts";
import { makeTokenwise, prepareGraph, type TokenwiseGraph } from "./prepare_graph.ts";
import type { Graph, ModelProto, Node } from "../file/proto.ts";
import { type CutResult, Refusal, tryCut } from "../refusal.ts";
import { buildSegments, makePort, partitionNodes, ROWS } from "./segments.ts";
import { replaceAttentions } from "../attention/replace_attentions.ts";
import { findEncoderInputs } from "../decoder_inputs.ts";
import { liftConstants } from "../file/lift_constants.ts";
import { findEncoderAttentions } from "../attention/encoder_attention.ts";
import { GraphIndex, isIndex } from "../graph_index.ts";
import { keepAllTokens, type PickedToken } from "./picked_token.ts";
import { Probes, SHORT_LENGTHS } from "../probes.ts";
import { countElements } from "../file/tensor.ts";
import type { TokenAxes } from "./token_axis.ts";

/** Options for cutting a decoder. */
export interface CutOptions {
  /** Tokens of the longest sequence. Masks are evaluated up to this length. */
  readonly contextLength?: number | undefined;
}

/** Used if the model's folder does not give a context length. */
const DEFAULT_CONTEXT_LENGTH = 131_072;

function cutOrThrow(model: ModelProto, contextLength: number): GraphCut {
  const prepared = prepareGraph(model.graph, contextLength);
  const { inputs, wanted, probes, proof, attentions } = prepared;
  const partition = partitionNodes(probes.index, proof.lengths, wanted);
  const segments = buildSegments(model, prepared, { partition });
  const output = segments.at(-1)!.outputs.find(({ name }) => name === wanted)!;
  const width = output.shape.at(-1);
  if (typeof width !== "number") throw new Refusal(`The width of "${wanted}" is not known.`);
  const crossing = new Map(
    segments.flatMap((segment) => segment.inputs.map((port) => [port.name, port])),
  );
  const inputPort = (port: TensorPort): TensorPort =>
    isIndex(port.name, probes.index) ? { ...port, isIndex: true } : port;
  const positions = inputs.positions && crossing.get(inputs.positions.name);
  const perLayer = inputs.perLayer && crossing.get(inputs.perLayer.name);
  const tokens = makePort(inputs.tokens.name, probes, proof.axes);
  const { longFrom } = prepared;
  const limit =
    Math.min(findTableLimit(probes), ...attentions.map(({ found }) => found.maxPositions)) -
    (longFrom ?? 0);
  return {
    segments,
    attentions: describeAttentions(prepared, partition.nodeLevels),
    states: describeStates(prepared, partition.nodeLevels),
    experts: describeMixtures(prepared, partition.nodeLevels),
    tokens: { ...inputPort(tokens), kind: inputs.kind },
    perLayer,
    positions: positions && inputPort(positions),
    rows: ROWS,
    output: { ...output, width },
    maxPositions: limit < contextLength ? limit : undefined,
    longFrom,
    notes: proof.notes,
  };
}

/**
 * The last cut of each model, which is needed twice if a folder has several dtypes: to choose a dtype, and to load the
 * model.
 */
const lastCuts = new WeakMap<ModelProto, [contextLength: number, result: CutResult<GraphCut>]>();

/** Cuts a decoder graph at its attentions, recurrences and mixtures of experts, or says why it cannot be cut. */
export function cutGraph(
  model: ModelProto,
  { contextLength = DEFAULT_CONTEXT_LENGTH }: CutOptions = {},
): CutResult<GraphCut> {
  const [lastLength, lastResult] = lastCuts.get(model) ?? [];
  if (lastResult !== undefined && lastLength === contextLength) return lastResult;
  const result = tryCut(() => cutOrThrow(model, contextLength));
  lastCuts.set(model, [contextLength, result]);
  return result;
}

/** Options for cutting an encoder. */
interface EncoderCutOptions {
  /** The output to keep: a row per token, or a result that is computed from the first token. */
  readonly wanted: string;
  /**
   * Makes nodes that reduce all rows to the wanted result; if absent, the input {@linkcode ROWS} says which rows to
   * compute.
   */
  readonly tail?: ((rows: TensorPort) => EncoderTail) | undefined;
  readonly padTokenId: number;
  /** Tokens of the longest text that will be run. */
  readonly contextLength: number;
}

/** The number of positions in the tables of an encoder's graph; `Infinity` if none are found, or it is refused. */
export function countPositions({ graph }: ModelProto, padTokenId: number): number {
  const index = new GraphIndex(liftConstants(graph));
  try {
    return findTableLimit(new Probes(index, findEncoderInputs(index, padTokenId)));
  } catch (error) {
    if (error instanceof Refusal) return Infinity;
    throw error;
  }
}

/** Prepares an encoder's graph for the cut. */
function prepare(original: Graph, options: EncoderCutOptions): TokenwiseGraph {
  const { wanted, padTokenId, contextLength } = options;
  const lifted = new GraphIndex(liftConstants(original));
  const inputs = findEncoderInputs(lifted, padTokenId);
  const picked: PickedToken = "first";
  const whole = new GraphIndex(keepAllTokens(new Probes(lifted, inputs), wanted, picked));
  const search = { index: whole, probes: new Probes(whole, inputs), contextLength };
  const replaced = replaceAttentions(search, findEncoderAttentions(search), [wanted]);
  if (replaced.attentions.length === 0) {
    throw new Refusal(
      "It holds no attention that Hearth knows: no MultiHeadAttention or Attention, and no softmax " +
        "between two products.",
    );
  }
  return makeTokenwise(search, replaced, wanted);
}

function cut(model: ModelProto, options: EncoderCutOptions): EncoderCut {
  const { contextLength } = options;
  const prepared = prepare(model.graph, options);
  const { inputs, wanted, probes, proof } = prepared;
  const tail = options.tail?.(makePort(wanted, probes, proof.axes));
  const partition = partitionNodes(probes.index, proof.lengths, wanted);
  const segments = buildSegments(model, prepared, { partition, tail });
  const crossing = new Map(
    segments.flatMap((segment) => segment.inputs.map((port) => [port.name, port])),
  );
  const limit = findTableLimit(probes);
  const answer: EncoderAnswer = tail === undefined
    ? { kind: "rows", input: ROWS }
    : { kind: "tail", input: tail.input };
  return {
    segments,
    attentions: describeAttentions(prepared, partition.nodeLevels),
    tokens: makePort(inputs.tokens.name, probes, proof.axes),
    positions: inputs.positions && crossing.get(inputs.positions.name),
    uncountedId: inputs.skipsPadding ? options.padTokenId : undefined,
    types: inputs.types && crossing.get(inputs.types.name),
    answer,
    output: segments.at(-1)!.outputs[0]!,
    maxPositions: limit < contextLength ? limit : undefined,
  };
}

/**
 * Cuts an encoder graph at its attentions, or says why it cannot be cut. Texts of any lengths can then share a step
 * without padding.
 */
export function cutEncoder(
  model: ModelProto,
  options: EncoderCutOptions,
): CutResult<EncoderCut> {
  return tryCut(() => cut(model, options));
}

/** @throws {Refusal} when the kernels do not support the type of an attention's operands. */
function requireFloat(dtype: string | undefined, name: string): "float32" | "float16" {
  if (dtype === "float32" || dtype === "float16") return dtype;
  throw new Refusal(
    `The attention "${name}" computes in ${dtype}; Hearth's kernels compute in float32 or float16.`,
  );
}

/** The number of positions in the smallest table that is indexed by position; `Infinity` if there is none. */
function findTableLimit(probes: Probes): number {
  let limit = Infinity;
  for (const { opType, inputs: [table, indices] } of probes.index.graph.nodes) {
    const rows = opType === "Gather" ? probes.index.constants.get(table!)?.shape[0] : undefined;
    if (rows === undefined || indices === probes.inputs.tokens.name) continue;
    const offset = probes.positionOffset(indices!);
    if (offset !== undefined) limit = Math.min(limit, rows - offset);
  }
  return limit;
}

/** Describes the heads of each token in a tensor that a kernel node reads. */
function describeRows(tensor: string, axes: TokenAxes, offset = 0): HeadRows {
  const tokenStride = countElements(axes.shape(tensor)) / SHORT_LENGTHS[0].numTokens;
  return { tensor, tokenStride, offset };
}

/** The properties that all kinds of kernel nodes have. */
interface Described {
  readonly name: string;
  readonly output: TensorPort;
  readonly dtype: "float32" | "float16";
  readonly afterSegment: number;
}

/** Describes the kernel nodes of one kind that are still part of the graph, in the order in which they run. */
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

function describeStates(
  graph: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): RecurrenceNode[] {
  return describeNodes(graph.states, graph, levels, ({ recurrence }, inputs, axes) => {
    return { recurrence, operands: inputs.map((input) => describeRows(input, axes)) };
  });
}

function describeMixtures(
  graph: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): ExpertsNode[] {
  return describeNodes(graph.mixtures, graph, levels, ({ mixture }, inputs, axes) => {
    const [x, logits] = inputs as [string, string];
    return { mixture, operands: [describeRows(x, axes), describeRows(logits, axes)] as const };
  });
}

function describeAttentions(
  graph: TokenwiseGraph,
  levels: ReadonlyMap<Node, number>,
): (AttentionNode & Pick<EncoderNode, "window">)[] {
  return describeNodes(graph.attentions, graph, levels, (found, inputs, axes) => {
    const [q, k, v] = [found.q, found.k, found.v].map(({ offset }, i) =>
      describeRows(inputs[i]!, axes, offset)
    ) as [HeadRows, HeadRows, HeadRows];
    const { heads, kvHeads, headDim, vHeadDim, scale } = found;
    const { rotary, localWindow, window, softcap, sinks, slopes } = found;
    const [slope] = slopes?.length === 1 ? slopes : [];
    return {
      ...{ q, k, v, heads, kvHeads, headDim, vHeadDim, scale },
      ...{ rotary, localWindow, window, softcap, sinks },
      slopes: slope === undefined ? slopes : Array(heads).fill(slope),
    };
  }).map((node, layer) => ({ layer, ...node }));
}
