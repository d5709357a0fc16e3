/**
 * The cut of an encoder: its graph becomes segments for ONNX Runtime and attentions for Hearth's own kernel, so that
 * texts of any lengths lie one after the other without padding. Pure, as the cut of decoders.
 *
 * @module
 */
import { replaceAttentions } from "../attention/replace_attentions.ts";
import { type DecoderInputs, liftConstants } from "../decoder_inputs.ts";
import { findEncoderAttentions } from "../attention/encoder_attention.ts";
import type { EncoderAnswer, EncoderCut, EncoderTail, TensorPort } from "../graph_cut.ts";
import { GraphIndex } from "../graph_index.ts";
import { keepAllTokens, type PickedToken } from "./last_token.ts";
import { makeTokenwise, type TokenwiseGraph } from "./prepare_graph.ts";
import { Probes } from "../probes.ts";
import type { Graph, ModelProto } from "../file/proto.ts";
import { type CutResult, Refusal, tryCut } from "../refusal.ts";
import { buildSegments, ROWS } from "./segment_model.ts";
import { partitionNodes } from "./segments.ts";
import { describeAttentions, makePort, tableLimit } from "../describe_nodes.ts";

/** How to cut an encoder. */
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
  const replaced = replaceAttentions(search, findEncoderAttentions(search), [wanted]);
  if (replaced.attentions.length === 0) {
    throw new Refusal(
      "It holds no attention that Hearth knows: neither MultiHeadAttention, Attention, nor a softmax " +
        "between two products.",
    );
  }
  return makeTokenwise(search, replaced, wanted);
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

/** Cuts an encoder graph at its attentions, or says why not. */
export function splitEncoder(
  model: ModelProto,
  options: EncoderSplitOptions,
): CutResult<EncoderCut> {
  return tryCut(() => cut(model, options));
}
