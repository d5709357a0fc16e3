/**
 * The cut: a decoder graph becomes segments for ONNX Runtime and attentions for Hearth's own kernels. Pure: it works on
 * the decoded file and does not touch the weights.
 *
 * @module
 */
import type { GraphCut, TensorPort } from "../graph_cut.ts";
import { prepareGraph } from "./prepare_graph.ts";
import type { ModelProto } from "../file/proto.ts";
import { type CutResult, Refusal, tryCut } from "../refusal.ts";
import { buildSegments, ROWS } from "./segment_model.ts";
import { partitionNodes } from "./segments.ts";
import {
  describeAttentions,
  describeMixtures,
  describeStates,
  isIndex,
  makePort,
  tableLimit,
} from "../describe_nodes.ts";

/** What the cut may assume. */
export interface SplitOptions {
  /** Tokens of the longest sequence; masks are evaluated up to there. */
  readonly contextLength?: number | undefined;
}

/** Used if the model's folder does not name the context length. */
const DEFAULT_CONTEXT_LENGTH = 131_072;

function cutGraph(model: ModelProto, contextLength: number): GraphCut {
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
  const limit = Math.min(tableLimit(probes), ...attentions.map(({ found }) => found.maxPositions)) -
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

/** Cuts a decoder graph at its attentions, or says why not. */
export function splitGraph(model: ModelProto, options: SplitOptions = {}): CutResult<GraphCut> {
  return tryCut(() => cutGraph(model, options.contextLength ?? DEFAULT_CONTEXT_LENGTH));
}
