/**
 * An attention that was found in a graph, whichever nodes express it, and functions that its finders share.
 *
 * @module
 */
import {
  computeCausalMask,
  findSlopes,
  proveMask,
  type ProvenMask,
  readVisibility,
} from "./attention_mask.ts";
import type { Value } from "../evaluate/value.ts";
import type { StoredTensor } from "../file/tensor.ts";
import { COPYING, describeNode, followBack, type GraphIndex } from "../graph_index.ts";
import { type Node, readFloatAttribute, type Tensor } from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";

/**
 * The order of a tensor's axes: token-major is `[1, tokens, …]`; head-major is `[1, heads, tokens, size]` or
 * `[heads, tokens, size]`.
 */
export type Layout = "token_major" | "head_major";

/** The tensor of the graph that is an operand of an attention. */
export interface Operand {
  readonly tensor: string;
  readonly layout: Layout;
  /** Elements of a row before the heads, if several operands share the tensor. */
  readonly offset: number;
}

/** An attention of the graph. Its fields mean the same as in `AttentionNode`. */
export interface FoundAttention {
  readonly name: string;
  readonly q: Operand;
  readonly k: Operand;
  readonly v: Operand;
  /** The tensor that holds the attention's result. */
  readonly output: { readonly tensor: string; readonly layout: Layout };
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vHeadDim: number;
  readonly scale: number;
  readonly rotary?: {
    readonly cos: StoredTensor;
    readonly sin: StoredTensor;
    readonly dim: number;
    readonly interleaved: boolean;
  } | undefined;
  readonly localWindow?: number | undefined;
  /** The window of an encoder's attention; see `EncoderNode`. */
  readonly window?: number | undefined;
  readonly softcap?: number | undefined;
  readonly sinks?: StoredTensor | undefined;
  /** The slope of each head, or one for all heads. */
  readonly slopes?: readonly number[] | undefined;
  /** Number of positions that the attention's tables and mask cover; Infinity if it has neither. */
  readonly maxPositions: number;
  /** Nodes to insert before the kernel node, in order. They do what the graph's node does besides attending. */
  readonly before?: readonly Node[] | undefined;
  /** Constants that these nodes read. */
  readonly constants?: readonly Tensor[] | undefined;
}

/** A graph to search for attentions. */
export interface Search {
  readonly index: GraphIndex;
  readonly probes: Probes;
  /** Tokens of the longest sequence that will be run. */
  readonly contextLength: number;
}

/** The attention's name for messages: that of its node, or of its result if the node has none. */
export function getName(node: Node): string {
  return node.name || node.outputs[0]!;
}

/** Reads a node's scale. An attribute of 0 or an absent one means `1 / sqrt(headDim)`. */
export function readScale(node: Node, headDim: number): number {
  return readFloatAttribute(node, "scale") || 1 / Math.sqrt(headDim);
}

/** Returns a number if it is positive: windows and caps of zero or less mean that there is none. */
export function positive(value: number | undefined): number | undefined {
  return value !== undefined && value > 0 ? value : undefined;
}

/** Makes an operand of a token-major tensor. */
export function rows(tensor: string, offset = 0): Operand {
  return { tensor, layout: "token_major", offset };
}

/** The name of an optional input, if the node has it. */
export function getInputName(node: Node, position: number): string | undefined {
  return node.inputs[position] || undefined;
}

/**
 * Describes why a tensor's shape is unknown: names the earliest node or input on the path to it whose shape is unknown.
 */
function findObstacle({ index, probes }: Search, tensor: string): string {
  const run = probes.at(SHORT_LENGTHS[0]);
  for (let name = tensor;;) {
    const node = index.producers.get(name);
    if (node === undefined) return `the input "${name}"`;
    const unknown = node.inputs.find((input) => input !== "" && run.value(input) === undefined);
    if (unknown === undefined) return describeNode(node);
    name = unknown;
  }
}

/** The shape of a tensor in the first short run. @throws {Refusal} when it is unknown. */
export function requireKnownShape(search: Search, tensor: string, node: Node): readonly number[] {
  const value = search.probes.at(SHORT_LENGTHS[0]).value(tensor);
  if (value !== undefined) return value.shape;
  throw new Refusal(
    `What ${
      describeNode(node)
    } takes as "${tensor}" cannot be followed by partial evaluation: nothing is known of ${
      findObstacle(search, tensor)
    }.`,
  );
}

/** Operators that may lie between a cache input and an attention. */
const CACHE_COPIES = new Set(["Identity", "Cast", "Concat"]);

/**
 * Finds the cache input behind a tensor, through copies, casts and concatenations with empty tensors, which exporters
 * insert.
 */
export function findCacheInput({ index, probes }: Search, tensor: string): string | undefined {
  const run = probes.at(SHORT_LENGTHS[1]);
  const isEmpty = (name: string) => run.value(name)?.shape.includes(0) ?? false;
  for (let name: string | undefined = tensor; name !== undefined;) {
    if (probes.inputs.caches.has(name)) return name;
    const node = index.producers.get(name);
    const sources: string[] = node?.inputs.filter((input) => !isEmpty(input)) ?? [];
    const isCopy = node !== undefined && CACHE_COPIES.has(node.opType);
    name = isCopy && sources.length === 1 ? sources[0] : undefined;
  }
  return undefined;
}

/** @throws {Refusal} unless the past keys and values of a node are inputs of the graph. */
export function requireCache(
  search: Search,
  node: Node,
  key: string | undefined,
  value: string | undefined,
): void {
  for (const past of [key, value]) {
    if (past !== undefined && findCacheInput(search, past) !== undefined) continue;
    throw new Refusal(
      past === undefined
        ? `${describeNode(node)} has no cache of past keys and values.`
        : `The past of ${
          describeNode(node)
        }, "${past}", is computed; it should be an input of the graph.`,
    );
  }
}

/** @throws {Refusal} when a node uses one of these inputs. @param wants the indices of these inputs, by name. */
export function refuseInputs(node: Node, wants: Readonly<Record<string, number>>): void {
  for (const [name, position] of Object.entries(wants)) {
    if (getInputName(node, position) === undefined) continue;
    throw new Refusal(
      `${describeNode(node)} has an input ${name}, which Hearth's attention lacks.`,
    );
  }
}

/** @throws {Refusal} always: slopes are relative to the query's own key, but sinks have no position. */
export function refuseBiasedSinks(of: string): never {
  throw new Refusal(`${of} has sinks and a bias by distance (ALiBi) at once.`);
}

/** @throws {Refusal} unless a tensor has the expected value in every short run. */
export function requireValues(
  { probes }: Search,
  tensor: string,
  node: Node,
  wanted: { readonly what: string; readonly is: (value: Value, run: number) => boolean },
): void {
  probes.short().forEach((run, i) => {
    const value = run.value(tensor);
    if (value !== undefined && wanted.is(value, i)) return;
    throw new Refusal(
      `${describeNode(node)} takes "${tensor}" as ${wanted.what}, but it ` +
        (value?.data ? "holds something else." : "cannot be computed by partial evaluation."),
    );
  });
}

/** Whether the elements of a value are the positions of a run's new tokens. */
export function holdsPositions(value: Value, run: number): boolean {
  const { pastLength, numTokens } = SHORT_LENGTHS[run]!;
  return value.data?.length === numTokens && value.data.every((x, i) => x === pastLength + i);
}

/** Finds the constant behind a tensor, through casts. @throws {Refusal} when the tensor depends on an input. */
export function requireConstant(
  { index }: Pick<Search, "index">,
  tensor: string,
  node: Node,
): StoredTensor {
  const original = followBack(index, tensor, COPYING);
  const constant = index.constants.get(original);
  const producer = index.producers.get(original);
  if (constant === undefined) {
    throw new Refusal(
      `${describeNode(node)} takes "${tensor}", which should be a constant but is ` +
        `${producer ? `computed by ${describeNode(producer)}` : "an input"}.`,
    );
  }
  const { name, dtype, shape, data } = constant;
  return { name, dtype, shape, data };
}

/**
 * Proves which keys the tokens of a node attend to, for operators with an optional mask input.
 *
 * @throws {Refusal} when the mask cannot be computed, or when neither the mask nor the node itself hides the keys after
 * a query.
 */
export function proveNodeMask(
  node: Node,
  { probes, contextLength }: Search,
  { mask, isCausal }: { readonly mask: string | undefined; readonly isCausal: boolean },
): ProvenMask {
  const of = describeNode(node);
  if (mask === undefined) {
    if (isCausal) return { localWindow: undefined, maxPositions: Infinity };
    throw new Refusal(`${of} is not causal: it has no mask, and no attribute says that it is.`);
  }
  const short = SHORT_LENGTHS[0];
  const slopes = findSlopes(probes.at(short).value(mask), short);
  const proven = proveMask(
    (lengths) => {
      const visible = readVisibility(probes.at(lengths).value(mask), lengths, of, slopes);
      if (!isCausal) return visible;
      const causal = computeCausalMask(lengths);
      return visible?.map((seen, i) => seen & causal[i]!);
    },
    contextLength,
    of,
  );
  return { ...proven, slopes };
}
