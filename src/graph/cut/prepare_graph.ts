/**
 * Prepares a decoder graph for the cut: replaces its attentions by kernel nodes, and proves that the rest computes each
 * token by itself.
 *
 * @module
 */
import type { Search } from "../attention/attention.ts";
import {
  type AttentionGraph,
  findAttentions,
  replaceAttentions,
  type ReplacedAttention,
} from "../attention/replace_attentions.ts";
import {
  findInputs,
  findOutput,
  fixLogitCount,
  requireFloatCaches,
  splitCacheHeads,
  widenIds,
} from "../decoder_inputs.ts";
import type { Value } from "../evaluate/value.ts";
import { dropMaskFactors, findDependents, foldConstants, foldLengths } from "./fold_lengths.ts";
import { describeNode, GraphIndex } from "../graph_index.ts";
import { keepAllTokens } from "./picked_token.ts";
import { type Graph, hasSubgraph } from "../file/proto.ts";
import { type DecoderInputs, type Lengths, Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { joinConstantBranches } from "../rewrite/constant_branches.ts";
import { normByMeanSquare } from "../rewrite/plain_norms.ts";
import {
  computeTokenMajor,
  dropIdleMoves,
  keepTokenAxis,
  splitLayerInputs,
} from "../rewrite/token_rows.ts";
import { liftConstants } from "../file/lift_constants.ts";
import { spellOperators, spellRotary } from "../rewrite/spelled_operators.ts";
import { spellXielu } from "../rewrite/spelled_xielu.ts";
import { multiplyDequantized } from "../rewrite/dequantized_products.ts";
import { multiplyInBlocks } from "../rewrite/dynamic_products.ts";
import {
  expandPositionTables,
  gatherQuantized,
  readOriginals,
  readTiedTables,
  readWholeTables,
} from "../rewrite/tied_tables.ts";
import { type ReplacedMixture, replaceMixtures } from "../experts/replace_mixtures.ts";
import { type ReplacedState, replaceStates } from "../states/replace_states.ts";
import { proveTokensAlike, type TokenProof } from "./token_axis.ts";

/** A graph that computes each token by itself, ready to be partitioned into segments. */
export interface TokenwiseGraph {
  readonly inputs: DecoderInputs;
  /** The output to keep. */
  readonly wanted: string;
  readonly attentions: readonly ReplacedAttention[];
  readonly states: readonly ReplacedState[];
  readonly mixtures: readonly ReplacedMixture[];
  readonly probes: Probes;
  readonly proof: TokenProof;
  /** See {@linkcode GraphCut.longFrom}. */
  readonly longFrom?: number | undefined;
}

/** The recurrences and mixtures of experts of a graph, and their results in a partial evaluation. */
interface OtherNodes {
  readonly states: readonly ReplacedState[];
  readonly mixtures: readonly ReplacedMixture[];
  readonly known: (lengths: Lengths) => ReadonlyMap<string, Value>;
}

const NO_OTHERS: OtherNodes = { states: [], mixtures: [], known: () => new Map() };

/** Makes partial evaluations of a graph, given the shapes of its kernel nodes' results. */
function probeNodes(
  index: GraphIndex,
  inputs: DecoderInputs,
  { attentions, others, dtypes }: {
    readonly attentions: readonly ReplacedAttention[];
    readonly others: OtherNodes;
    readonly dtypes: ReadonlyMap<string, Value["dtype"]>;
  },
): Probes {
  const known = (lengths: Lengths) => {
    const values = new Map(others.known(lengths));
    for (const { node, found } of attentions) {
      const shape = [1, lengths.numTokens, found.heads * found.vHeadDim];
      const output = node.outputs[0]!;
      values.set(output, { dtype: dtypes.get(output)!, shape });
    }
    return values;
  };
  return new Probes(index, inputs, known);
}

/** @throws {Refusal} when a graph needs its mask or its past even though its attentions were replaced. */
function requireOnlyTokens(graph: Graph, inputs: DecoderInputs): void {
  const { tokens, positions, types, perLayer } = inputs;
  const allowed = new Set([tokens, positions, types, perLayer].map((info) => info?.name));
  const constants = new Set(graph.initializers.map(({ name }) => name));
  for (const { name } of graph.inputs) {
    if (allowed.has(name) || constants.has(name)) continue;
    const consumer = graph.nodes.find((node) => node.inputs.includes(name));
    if (consumer === undefined) continue;
    const cached = findDependents(graph.nodes, inputs.caches);
    const missed = graph.nodes.find((node) =>
      node.opType === "Softmax" && cached.has(node.inputs[0]!)
    );
    if (missed !== undefined) {
      throw new Refusal(
        `${
          describeNode(missed)
        } reads the cache, but not in a pattern of attention that Hearth knows.`,
      );
    }
    throw new Refusal(`${describeNode(consumer)} needs "${name}" even without the attentions.`);
  }
}

/** Rewrites a graph. If the rewrite changes nothing, the partial evaluations are kept. */
function rewriteProbed(probes: Probes, rewrite: (probes: Probes) => Graph): Probes {
  const graph = rewrite(probes);
  return graph === probes.index.graph ? probes : new Probes(new GraphIndex(graph), probes.inputs);
}

/**
 * Prepares a decoder graph.
 *
 * @param contextLength tokens of the longest sequence that will be run.
 * @throws {Refusal} when the graph is not a decoder, or cannot be cut.
 */
export function prepareGraph(original: Graph, contextLength: number): TokenwiseGraph {
  const constants = readOriginals(fixLogitCount(foldConstants(liftConstants(widenIds(original)))));
  const plainTables = readTiedTables(splitCacheHeads(constants));
  const lifted = new GraphIndex(
    multiplyInBlocks(multiplyDequantized(gatherQuantized(plainTables))),
  );
  const inputs = findInputs(lifted);
  const wanted = findOutput(lifted.graph);
  const ofAll = new GraphIndex(keepAllTokens(new Probes(lifted, inputs), wanted));
  const ofTokens = new GraphIndex(readWholeTables(new Probes(ofAll, inputs)));
  const joined = joinConstantBranches(new Probes(ofTokens, inputs), contextLength);
  const ofRows = joined.graph === ofTokens.graph ? ofTokens : new GraphIndex(joined.graph);
  const probes = [
    ...[dropMaskFactors, expandPositionTables, spellRotary, spellOperators, spellXielu],
    ...[splitLayerInputs, keepTokenAxis, dropIdleMoves, normByMeanSquare],
  ].reduce(rewriteProbed, new Probes(ofRows, inputs));
  const normed = probes.index;
  requireFloatCaches(normed, inputs);
  const mixed = replaceMixtures({ index: normed, probes });
  const whole = mixed.mixtures.length === 0 ? normed : new GraphIndex(mixed.graph);
  const states = replaceStates({ index: whole, probes: new Probes(whole, inputs, mixed.known) });
  const index = states.states.length === 0
    ? whole
    : new GraphIndex(computeTokenMajor(states.graph, whole.graph.outputs.map(({ name }) => name)));
  const { mixtures } = mixed;
  const known = (lengths: Lengths) => new Map([...mixed.known(lengths), ...states.known(lengths)]);
  const search = { index, probes: new Probes(index, inputs, known), contextLength };
  const { graph, attentions } = replaceAttentions(search, findAttentions(search), [wanted]);
  if (attentions.length === 0 && states.states.length === 0) {
    const branching = whole.graph.nodes.find(hasSubgraph);
    throw new Refusal(
      "It holds no attention over a cache that Hearth knows: no GroupQueryAttention, " +
        "MultiHeadAttention or Attention, and no softmax between two products" +
        (branching ? `; ${describeNode(branching)} has graphs of its own.` : "."),
    );
  }
  const { longFrom } = joined;
  const others = { states: states.states, mixtures, known };
  const { proof, ...tokenwise } = makeTokenwise(search, { graph, attentions, others }, wanted);
  const notes = [...mixed.notes, ...proof.notes];
  return { ...tokenwise, proof: { ...proof, notes }, longFrom };
}

/**
 * Folds what is computed from lengths only, and proves that the rest computes each token by itself.
 *
 * @param search the search of the graph before its attentions were replaced.
 * @throws {Refusal} when it may mix tokens.
 */
export function makeTokenwise(
  search: Search,
  { graph, attentions, others = NO_OTHERS }: AttentionGraph & { readonly others?: OtherNodes },
  wanted: string,
): TokenwiseGraph {
  const { inputs } = search.probes;
  const dtypes = new Map(attentions.map(({ found, node }): [string, Value["dtype"]] => {
    const value = search.probes.at(SHORT_LENGTHS[0]).value(found.output.tensor);
    return [node.outputs[0]!, value?.dtype ?? "undefined"];
  }));
  const known = { attentions, others, dtypes };
  const nodeProbes = probeNodes(new GraphIndex(graph), inputs, known);
  const folded = foldLengths(nodeProbes, search.contextLength, [wanted]);
  requireOnlyTokens(folded.graph, folded.inputs);
  const probes = probeNodes(new GraphIndex(folded.graph), folded.inputs, known);
  const proof = proveTokensAlike(probes);
  const { states, mixtures } = others;
  return { inputs: folded.inputs, wanted, attentions, states, mixtures, probes, proof };
}
