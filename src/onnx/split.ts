/**
 * The cut: a decoder graph becomes segments for ONNX Runtime and attentions for Hearth's own kernels.
 * Pure: it works on what was read of the file and does not touch the weights.
 *
 * @module
 */
import { findAttentions, placeSites, type SiteGraph } from "./attention_sites.ts";
import { elementsOf } from "./dtype.ts";
import type { Value } from "./evaluate/value.ts";
import { storedBytes } from "./external_data.ts";
import { dependents, foldLengths } from "./fold_lengths.ts";
import type {
  AttentionSite,
  CutResult,
  GraphCut,
  HeadRows,
  Segment,
  SharedWeight,
  TensorPort,
} from "./graph_cut.ts";
import { describeNode, GraphIndex } from "./graph_index.ts";
import { type Graph, hasSubgraph, type Model, type Node } from "./proto.ts";
import {
  type DecoderInputs,
  findInputs,
  findKvDtype,
  findOutput,
  fixLogitCount,
  liftConstants,
} from "./decoder_inputs.ts";
import { keepAllTokens } from "./last_token.ts";
import { type Lengths, Probes, SHORT_LENGTHS } from "./probes.ts";
import { Refusal } from "./refusal.ts";
import { buildSegment, gatherRows, ROWS, rowsOf } from "./segment_model.ts";
import { dealSegments } from "./segments.ts";
import { proveTokensAlike, type TokenAxes } from "./token_axis.ts";

/** What the cut may rely on. */
export interface SplitOptions {
  /** Tokens of the longest sequence that will be run; masks are looked at up to there. */
  readonly contextLength?: number | undefined;
}

/** Looked at where the model's folder does not say how long a sequence may get. */
const DEFAULT_CONTEXT_LENGTH = 131_072;
/** Shared constants smaller than this are not worth a word. */
const SHARED_BYTES = 65_536;

/** Runs on paper of a graph with site nodes, whose results have known shapes. */
function probeSites(
  index: GraphIndex,
  inputs: DecoderInputs,
  { sites }: SiteGraph,
  dtypes: ReadonlyMap<string, Value["dtype"]>,
): Probes {
  const known = ({ numTokens }: Lengths) =>
    new Map(sites.map(({ node, found }): [string, Value] => {
      const shape = [1, numTokens, found.heads * found.vHeadDim];
      const output = node.outputs[0]!;
      return [output, { dtype: dtypes.get(output)!, shape }];
    }));
  return new Probes(index, inputs, known);
}

/** Refuses a graph that still needs its mask or its past once the attentions are out. */
function requireOnlyTokens(graph: Graph, inputs: DecoderInputs): void {
  const allowed = new Set([inputs.tokens.name, inputs.positions?.name]);
  const constants = new Set(graph.initializers.map(({ name }) => name));
  for (const { name } of graph.inputs) {
    if (allowed.has(name) || constants.has(name)) continue;
    const consumer = graph.nodes.find((node) => node.inputs.includes(name));
    if (consumer === undefined) continue;
    const cached = dependents(graph.nodes, inputs.caches);
    const missed = graph.nodes.find((node) =>
      node.opType === "Softmax" && cached.has(node.inputs[0]!)
    );
    if (missed !== undefined) {
      throw new Refusal(
        `${describeNode(missed)} reads the cache, but not as an attention known here.`,
      );
    }
    throw new Refusal(`${describeNode(consumer)} needs "${name}", also without the attentions.`);
  }
}

/** Tells whether an attention's operands are of a type the kernels have. */
function requireFloat(dtype: string | undefined, name: string): "float32" | "float16" {
  if (dtype === "float32" || dtype === "float16") return dtype;
  throw new Refusal(`The attention "${name}" works in ${dtype}; Hearth's in float32 or float16.`);
}

function portOf(name: string, probes: Probes, axes: TokenAxes): TensorPort {
  const tokens = axes.of(name);
  if (tokens !== undefined && tokens.multiple !== 1) {
    throw new Refusal(`"${name}" crosses between segments with ${tokens.multiple} rows per token.`);
  }
  const { dtype } = probes.at(SHORT_LENGTHS[0]).value(name)!;
  const shape = axes.shape(name).map((size, axis) => axis === tokens?.axis ? "tokens" : size);
  return { name, dtype, shape };
}

/** Positions that the tables of position embeddings reach. */
function tableLimit(probes: Probes): number {
  let limit = Infinity;
  for (const { opType, inputs: [table, indices] } of probes.index.graph.nodes) {
    const rows = opType === "Gather" ? probes.index.constants.get(table!)?.shape[0] : undefined;
    if (rows === undefined || indices === probes.inputs.tokens.name) continue;
    const offsets = probes.short().map((run, i) => {
      const { pastLength, numTokens } = SHORT_LENGTHS[i]!;
      const data = run.value(indices!)?.data;
      const offset = data?.length === numTokens ? data[0]! - pastLength : NaN;
      return data?.every((x, t) => x === pastLength + t + offset) ? offset : NaN;
    });
    if (offsets.every((offset) => offset === offsets[0])) {
      limit = Math.min(limit, rows - offsets[0]!);
    }
  }
  return limit;
}

function sharedWeights(segments: readonly Segment[]): SharedWeight[] {
  const users = new Map<string, { bytes: number; segments: number[] }>();
  for (const { index, blobParts } of segments) {
    for (const { tensor } of blobParts) {
      const user = users.get(tensor.name) ?? { bytes: storedBytes(tensor), segments: [] };
      user.segments.push(index);
      users.set(tensor.name, user);
    }
  }
  return [...users].flatMap(([name, { bytes, segments }]) =>
    segments.length > 1 && bytes >= SHARED_BYTES ? [{ name, bytes, segments }] : []
  );
}

function describeSites(
  { sites }: SiteGraph,
  levels: ReadonlyMap<Node, number>,
  { probes, axes }: { readonly probes: Probes; readonly axes: TokenAxes },
): AttentionSite[] {
  const described = sites.map(({ found, node }) => {
    const heads = [found.q, found.k, found.v].map(({ offset }, i): HeadRows => {
      const tensor = node.inputs[i]!;
      const tokenStride = elementsOf(axes.shape(tensor)) / SHORT_LENGTHS[0].numTokens;
      return { tensor, tokenStride, offset };
    });
    const [q, k, v] = heads as [HeadRows, HeadRows, HeadRows];
    const output = portOf(node.outputs[0]!, probes, axes);
    const { name, headDim, vHeadDim, kvHeads, scale, rotary, localWindow, softcap, sinks } = found;
    const dtype = requireFloat(output.dtype, name);
    return {
      ...{ name, q, k, v, output, heads: found.heads, kvHeads, headDim, vHeadDim, scale, dtype },
      ...{ rotary, localWindow, softcap, sinks, afterSegment: levels.get(node)! },
    };
  });
  return described
    .sort((a, b) => a.afterSegment - b.afterSegment)
    .map((site, layer) => ({ layer, ...site }));
}

function cutGraph(model: Model, contextLength: number): GraphCut {
  const lifted = new GraphIndex(fixLogitCount(liftConstants(model.graph)));
  const wholeInputs = findInputs(lifted);
  const wanted = findOutput(lifted.graph);
  const whole = new GraphIndex(keepAllTokens(new Probes(lifted, wholeInputs), wanted));
  const kvDtype = findKvDtype(whole, wholeInputs);
  const search = { index: whole, probes: new Probes(whole, wholeInputs), contextLength };
  const placed = placeSites(search, findAttentions(search), [wanted]);
  if (placed.sites.length === 0) {
    const branching = whole.graph.nodes.find(hasSubgraph);
    throw new Refusal(
      "It holds no attention over a cache that Hearth knows: neither GroupQueryAttention, " +
        "MultiHeadAttention, Attention, nor a softmax between two products" +
        (branching ? `; ${describeNode(branching)} has graphs of its own.` : "."),
    );
  }
  const outputs = new Map(placed.sites.map(({ found, node }): [string, Value["dtype"]] => {
    const value = search.probes.at(SHORT_LENGTHS[0]).value(found.output.tensor);
    return [node.outputs[0]!, value?.dtype ?? "undefined"];
  }));
  const { graph, inputs } = foldLengths(
    probeSites(new GraphIndex(placed.graph), wholeInputs, placed, outputs),
    contextLength,
    [wanted],
  );
  requireOnlyTokens(graph, inputs);
  const index = new GraphIndex(graph);
  const probes = probeSites(index, inputs, placed, outputs);
  const { axes, lengths, notes } = proveTokensAlike(probes);
  const dealt = dealSegments(index, lengths, wanted);
  const port = (name: string) => portOf(name, probes, axes);
  const last = dealt.segments.length - 1;
  const segments = dealt.segments.map((part, i) => {
    const inputPorts = part.inputs.map(port);
    const outputPorts = part.outputs.map(port);
    return buildSegment(model, index.constants, {
      index: i,
      nodes: i === last ? gatherRows(part, inputPorts) : part.nodes,
      inputs: i === last ? [...inputPorts, ROWS] : inputPorts,
      outputs: i === last ? outputPorts.map(rowsOf) : outputPorts,
    });
  });
  const output = segments[last]!.outputs.find(({ name }) => name === wanted)!;
  const width = output.shape.at(-1);
  if (typeof width !== "number") throw new Refusal(`The width of "${wanted}" is not known.`);
  const used = new Set(segments.flatMap((segment) => segment.inputs.map(({ name }) => name)));
  const limit = Math.min(
    tableLimit(probes),
    ...placed.sites.map(({ found }) => found.maxPositions),
  );
  return {
    segments,
    attentions: describeSites(placed, dealt.siteLevels, { probes, axes }),
    tokens: { ...port(inputs.tokens.name), kind: inputs.kind },
    positions: inputs.positions && used.has(inputs.positions.name)
      ? port(inputs.positions.name)
      : undefined,
    rows: ROWS,
    output: { ...output, width },
    kvDtype,
    maxPositions: limit < contextLength ? limit : undefined,
    sharedWeights: sharedWeights(segments),
    notes,
  };
}

/** Cuts a decoder graph at its attentions, or says why not. */
export function splitGraph(model: Model, options: SplitOptions = {}): CutResult {
  try {
    return { cut: cutGraph(model, options.contextLength ?? DEFAULT_CONTEXT_LENGTH) };
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    throw error;
  }
}
