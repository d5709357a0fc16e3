/**
 * The cut: a decoder graph becomes segments for ONNX Runtime and attentions for Hearth's own kernels.
 * Pure: it works on what was read of the file and does not touch the weights.
 *
 * @module
 */
import { elementsOf } from "./dtype.ts";
import { storedBytes } from "./external_data.ts";
import type {
  AttentionSite,
  CutResult,
  GraphCut,
  HeadRows,
  Segment,
  SharedWeight,
  TensorPort,
} from "./graph_cut.ts";
import { type PreparedGraph, prepareGraph } from "./prepare_graph.ts";
import { type Probes, SHORT_LENGTHS } from "./probes.ts";
import type { Model, Node } from "./proto.ts";
import { Refusal } from "./refusal.ts";
import { buildSegment, gatherRows, ROWS, rowsOf } from "./segment_model.ts";
import { dealSegments, type Dealt } from "./segments.ts";
import type { TokenAxes } from "./token_axis.ts";

/** What the cut may rely on. */
export interface SplitOptions {
  /** Tokens of the longest sequence that will be run; masks are looked at up to there. */
  readonly contextLength?: number | undefined;
}

/** Looked at where the model's folder does not say how long a sequence may get. */
const DEFAULT_CONTEXT_LENGTH = 131_072;
/** Shared constants smaller than this are not worth a word. */
const SHARED_BYTES = 65_536;

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
  { sites, probes, proof: { axes } }: PreparedGraph,
  levels: ReadonlyMap<Node, number>,
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

/** A model of each segment; the last sees the wanted rows alone. */
function buildSegments(model: Model, prepared: PreparedGraph, dealt: Dealt): Segment[] {
  const { probes, proof } = prepared;
  const last = dealt.segments.length - 1;
  return dealt.segments.map((part, index) => {
    const [inputs, outputs] = [part.inputs, part.outputs].map((names) =>
      names.map((name) => portOf(name, probes, proof.axes))
    ) as [TensorPort[], TensorPort[]];
    const ported = index === last
      ? {
        nodes: gatherRows(part, inputs),
        inputs: [...inputs, ROWS],
        outputs: outputs.map(rowsOf),
      }
      : { nodes: part.nodes, inputs, outputs };
    return buildSegment(model, probes.index.constants, { index, ...ported });
  });
}

function cutGraph(model: Model, contextLength: number): GraphCut {
  const prepared = prepareGraph(model.graph, contextLength);
  const { inputs, wanted, probes, proof, sites } = prepared;
  const dealt = dealSegments(probes.index, proof.lengths, wanted);
  const segments = buildSegments(model, prepared, dealt);
  const output = segments.at(-1)!.outputs.find(({ name }) => name === wanted)!;
  const width = output.shape.at(-1);
  if (typeof width !== "number") throw new Refusal(`The width of "${wanted}" is not known.`);
  const crossing = new Map(
    segments.flatMap((segment) => segment.inputs.map((port) => [port.name, port])),
  );
  const limit = Math.min(tableLimit(probes), ...sites.map(({ found }) => found.maxPositions));
  return {
    segments,
    attentions: describeSites(prepared, dealt.siteLevels),
    tokens: { ...portOf(inputs.tokens.name, probes, proof.axes), kind: inputs.kind },
    positions: inputs.positions && crossing.get(inputs.positions.name),
    rows: ROWS,
    output: { ...output, width },
    kvDtype: prepared.kvDtype,
    maxPositions: limit < contextLength ? limit : undefined,
    sharedWeights: sharedWeights(segments),
    notes: proof.notes,
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
