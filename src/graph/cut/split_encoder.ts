/**
 * The cut of an encoder: its graph becomes segments for ONNX Runtime and attentions for Hearth's own kernel, so that
 * texts of any lengths lie one after the other without padding. Pure, as the cut of decoders.
 *
 * @module
 */
import { placeSites } from "../attention/attention_sites.ts";
import { type DecoderInputs, liftConstants } from "../decoder_inputs.ts";
import { findEncoderAttentions } from "../attention/encoder_attention.ts";
import type { EncoderAnswer, EncoderCut, EncoderCutResult, EncoderTail } from "./encoder_cut.ts";
import type { Segment, TensorPort } from "../graph_cut.ts";
import { GraphIndex } from "../graph_index.ts";
import { keepAllTokens, type PickedToken } from "./last_token.ts";
import { makeTokenwise, type TokenwiseGraph } from "./prepare_graph.ts";
import { Probes } from "../probes.ts";
import type { Graph, ModelProto } from "../file/proto.ts";
import { Refusal } from "../refusal.ts";
import { buildSegment, gatherRows, ROWS, toRowsPort } from "./segment_model.ts";
import { type Partition, partitionNodes } from "./segments.ts";
import { describeSites, makePort, tableLimit } from "../site_ports.ts";

/** What is wanted of an encoder. */
interface EncoderSplitOptions {
  /** The wanted output of the graph: a row per token, or a result computed from the first token. */
  readonly wanted: string;
  /** Reduces all rows to the wanted result; without it, rows are picked. */
  readonly tail?: ((rows: TensorPort) => EncoderTail) | undefined;
  readonly padTokenId: number;
  /** Tokens of the longest text that will be run. */
  readonly contextLength: number;
}

/** @throws {Refusal} when this is not an encoder over tokens. */
export function findEncoderInputs(index: GraphIndex, padTokenId: number): DecoderInputs {
  const tokens = index.inputs.get("input_ids");
  if (tokens === undefined) throw new Refusal("It takes no input_ids.");
  return {
    tokens,
    kind: "ids",
    mask: index.inputs.get("attention_mask"),
    positions: index.inputs.get("position_ids"),
    types: index.inputs.get("token_type_ids"),
    padTokenId,
    caches: new Set(),
  };
}

/** The length of the graph's position tables; `Infinity` if it has none that are known. */
export function countPositions({ graph }: ModelProto, padTokenId: number): number {
  const index = new GraphIndex(liftConstants(graph));
  try {
    return tableLimit(new Probes(index, findEncoderInputs(index, padTokenId)));
  } catch (error) {
    if (error instanceof Refusal) return Infinity;
    throw error;
  }
}

/** Prepares the graph for the cut. */
function prepare(original: Graph, options: EncoderSplitOptions): TokenwiseGraph {
  const { wanted, padTokenId, contextLength } = options;
  const lifted = new GraphIndex(liftConstants(original));
  const inputs = findEncoderInputs(lifted, padTokenId);
  const picked: PickedToken = "first";
  const whole = new GraphIndex(keepAllTokens(new Probes(lifted, inputs), wanted, picked));
  const search = { index: whole, probes: new Probes(whole, inputs), contextLength };
  const placed = placeSites(search, findEncoderAttentions(search), [wanted]);
  if (placed.sites.length === 0) {
    throw new Refusal(
      "It holds no attention that Hearth knows: neither MultiHeadAttention, Attention, nor a softmax " +
        "between two products.",
    );
  }
  return makeTokenwise(search, placed, wanted);
}

/** Outputs of the last segment: rows of wanted tokens, or the tail's result. */
function endWith(
  part: Partition["segments"][number],
  ports: { readonly inputs: readonly TensorPort[]; readonly outputs: readonly TensorPort[] },
  tail: EncoderTail | undefined,
) {
  if (tail === undefined) {
    return {
      nodes: gatherRows(part, ports.inputs),
      inputs: [...ports.inputs, ROWS],
      outputs: ports.outputs.map(toRowsPort),
    };
  }
  return {
    nodes: [...part.nodes, ...tail.nodes],
    inputs: [...ports.inputs, tail.input],
    outputs: [tail.output],
  };
}

function buildSegments(
  model: ModelProto,
  prepared: TokenwiseGraph,
  { partition, tail }: { readonly partition: Partition; readonly tail: EncoderTail | undefined },
): Segment[] {
  const { probes, proof } = prepared;
  const last = partition.segments.length - 1;
  return partition.segments.map((part, index) => {
    const toPorts = (names: readonly string[]) =>
      names.map((name) => makePort(name, probes, proof.axes));
    const ports = { inputs: toPorts(part.inputs), outputs: toPorts(part.outputs) };
    const ended = index === last ? endWith(part, ports, tail) : { nodes: part.nodes, ...ports };
    return buildSegment(model, probes.index.constants, { index, ...ended });
  });
}

function cut(model: ModelProto, options: EncoderSplitOptions): EncoderCut {
  const { contextLength } = options;
  const prepared = prepare(model.graph, options);
  const { inputs, wanted, probes, proof } = prepared;
  const tail = options.tail?.(makePort(wanted, probes, proof.axes));
  const partition = partitionNodes(probes.index, proof.lengths, wanted);
  const segments = buildSegments(model, prepared, { partition, tail });
  const crossing = new Map(
    segments.flatMap((segment) => segment.inputs.map((port) => [port.name, port])),
  );
  const limit = tableLimit(probes);
  const answer: EncoderAnswer = tail === undefined
    ? { kind: "rows", input: ROWS }
    : { kind: "tail", input: tail.input };
  return {
    segments,
    attentions: describeSites(prepared, partition.siteLevels),
    tokens: makePort(inputs.tokens.name, probes, proof.axes),
    positions: inputs.positions && crossing.get(inputs.positions.name),
    uncountedId: inputs.skipsPadding ? options.padTokenId : undefined,
    types: inputs.types && crossing.get(inputs.types.name),
    answer,
    output: segments.at(-1)!.outputs[0]!,
    maxPositions: limit < contextLength ? limit : undefined,
  };
}

/** Cuts an encoder graph at its attentions, or says why not. */
export function splitEncoder(model: ModelProto, options: EncoderSplitOptions): EncoderCutResult {
  try {
    return { cut: cut(model, options) };
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    throw error;
  }
}
