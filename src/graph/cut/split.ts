/**
 * The cut: a decoder graph becomes segments for ONNX Runtime and attentions for Hearth's own kernels. Pure: it works on
 * the decoded file and does not touch the weights.
 *
 * @module
 */
import { storedBytes } from "../file/stored_tensor.ts";
import type { CutResult, GraphCut, Segment, SharedWeight, TensorPort } from "../graph_cut.ts";
import { prepareGraph, type TokenwiseGraph } from "./prepare_graph.ts";
import type { ModelProto } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import { buildSegment, gatherRows, ROWS, toRowsPort } from "./segment_model.ts";
import { type Partition, partitionNodes } from "./segments.ts";
import {
  describeMixtures,
  describeSites,
  describeStates,
  isIndex,
  makePort,
  tableLimit,
} from "../site_ports.ts";

/** What the cut may assume. */
export interface SplitOptions {
  /** Tokens of the longest sequence; masks are evaluated up to there. */
  readonly contextLength?: number | undefined;
}

/** Used if the model's folder does not name the context length. */
const DEFAULT_CONTEXT_LENGTH = 131_072;
/** Shared constants smaller than this are not reported. */
const SHARED_BYTES = 65_536;

/** Constants that several segments need. */
export function sharedWeights(segments: readonly Segment[]): SharedWeight[] {
  const users = new Map<string, { bytes: number; segments: number[] }>();
  for (const { index, model } of segments) {
    for (const tensor of model.graph.initializers) {
      const user = users.get(tensor.name) ?? { bytes: storedBytes(tensor), segments: [] };
      user.segments.push(index);
      users.set(tensor.name, user);
    }
  }
  return [...users].flatMap(([name, { bytes, segments }]) =>
    segments.length > 1 && bytes >= SHARED_BYTES ? [{ name, bytes, segments }] : []
  );
}

/** A model of each segment; the last computes the wanted rows only. */
function buildSegments(
  model: ModelProto,
  prepared: TokenwiseGraph,
  partition: Partition,
): Segment[] {
  const { probes, proof } = prepared;
  const last = partition.segments.length - 1;
  return partition.segments.map((part, index) => {
    const [inputs, outputs] = [part.inputs, part.outputs].map((names) =>
      names.map((name) => makePort(name, probes, proof.axes))
    ) as [TensorPort[], TensorPort[]];
    const ported = index === last
      ? {
        nodes: gatherRows(part, inputs),
        inputs: [...inputs, ROWS],
        outputs: outputs.map(toRowsPort),
      }
      : { nodes: part.nodes, inputs, outputs };
    return buildSegment(model, probes.index.constants, { index, ...ported });
  });
}

function cutGraph(model: ModelProto, contextLength: number): GraphCut {
  const prepared = prepareGraph(model.graph, contextLength);
  const { inputs, wanted, probes, proof, sites } = prepared;
  const partition = partitionNodes(probes.index, proof.lengths, wanted);
  const segments = buildSegments(model, prepared, partition);
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
  const limit = Math.min(tableLimit(probes), ...sites.map(({ found }) => found.maxPositions)) -
    (longFrom ?? 0);
  return {
    segments,
    attentions: describeSites(prepared, partition.siteLevels),
    states: describeStates(prepared, partition.siteLevels),
    experts: describeMixtures(prepared, partition.siteLevels),
    tokens: { ...inputPort(tokens), kind: inputs.kind },
    perLayer,
    positions: positions && inputPort(positions),
    rows: ROWS,
    output: { ...output, width },
    maxPositions: limit < contextLength ? limit : undefined,
    longFrom,
    sharedWeights: sharedWeights(segments),
    notes: proof.notes,
  };
}

/** Cuts a decoder graph at its attentions, or says why not. */
export function splitGraph(model: ModelProto, options: SplitOptions = {}): CutResult {
  try {
    return { cut: cutGraph(model, options.contextLength ?? DEFAULT_CONTEXT_LENGTH) };
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    throw error;
  }
}
