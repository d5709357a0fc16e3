/**
 * Finds what the inputs and outputs of a decoder's or an encoder's graph mean.
 *
 * @module
 */
import type { GraphIndex } from "./graph_index.ts";
import { type Graph, int64Tensor, type ValueInfo } from "./file/proto.ts";
import { Refusal } from "./refusal.ts";

/** The inputs of a decoder graph, named as transformers.js feeds them. */
export interface DecoderInputs {
  readonly tokens: ValueInfo;
  readonly kind: "ids" | "embeddings";
  readonly mask: ValueInfo | undefined;
  readonly positions: ValueInfo | undefined;
  /** The per-layer embeddings of each token (Gemma 3n and 4). */
  readonly perLayer?: ValueInfo | undefined;
  /** Token type ids of an encoder. */
  readonly types?: ValueInfo | undefined;
  /** Id of the padding token, if the graph may test for it. Evaluations then feed only other ids. */
  readonly padTokenId?: number | undefined;
  /** Whether positions count only tokens other than padding. */
  readonly skipsPadding?: boolean | undefined;
  /** Names of past keys and values. */
  readonly caches: ReadonlySet<string>;
  /** Names of inputs for recurrent states, whose size does not depend on the number of tokens. */
  readonly states?: ReadonlySet<string> | undefined;
}

/** Whether a past input has no axis that grows: all sizes except that of the batch are known. */
function hasFixedSize({ shape = [] }: ValueInfo): boolean {
  return shape.length > 1 && shape.slice(1).every((size) => typeof size === "number");
}

/**
 * Finds the inputs of a decoder graph.
 *
 * @throws {Refusal} when the graph is not a decoder over tokens with a cache.
 */
export function findInputs(index: GraphIndex): DecoderInputs {
  const ids = index.inputs.get("input_ids");
  const embeddings = index.inputs.get("inputs_embeds");
  const tokens = ids ?? embeddings;
  const names = [...index.inputs.keys()].filter((name) => !name.startsWith("past"));
  if (tokens === undefined) {
    throw new Refusal(`It takes neither input_ids nor inputs_embeds, but ${names.join(", ")}.`);
  }
  if (ids && embeddings) throw new Refusal("It takes both input_ids and inputs_embeds.");
  if (index.inputs.has("encoder_hidden_states")) {
    throw new Refusal("It attends to an encoder (encoder_hidden_states).");
  }
  const past = [...index.inputs.values()].filter(({ name }) => name.startsWith("past"));
  const states = past.filter(hasFixedSize);
  const caches = past.filter((info) => info.shape?.length === 4 && !hasFixedSize(info));
  if (caches.length === 0 && states.length === 0) {
    throw new Refusal("It has no key-value cache (past_key_values.*).");
  }
  return {
    tokens,
    kind: ids ? "ids" : "embeddings",
    mask: index.inputs.get("attention_mask"),
    positions: index.inputs.get("position_ids"),
    perLayer: embeddings && index.inputs.get("per_layer_inputs"),
    caches: new Set(caches.map(({ name }) => name)),
    states: new Set(states.map(({ name }) => name)),
  };
}

/** Finds the inputs of an encoder graph. @throws {Refusal} when it takes no token ids. */
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

/** Fixes the input for the number of logits to 0, which means all. The cut chooses rows itself. */
export function fixLogitCount(graph: Graph): Graph {
  const count = graph.inputs.find(({ name }) => /^(num_)?logits_to_keep$/.test(name));
  if (count === undefined) return graph;
  const shape = (count.shape ?? []).map(() => 1);
  return { ...graph, initializers: [...graph.initializers, int64Tensor(count.name, shape, [0])] };
}

/**
 * The output that is not a cache: logits, or hidden states in a graph without a projection.
 *
 * @throws {Refusal} when it is ambiguous.
 */
export function findOutput(graph: Graph): string {
  const names = graph.outputs.map(({ name }) => name).filter((name) => !name.startsWith("present"));
  if (names.includes("logits")) return "logits";
  if (names.length === 1) return names[0]!;
  throw new Refusal(`It has no output named logits, but ${names.join(", ") || "caches alone"}.`);
}

/** Types of the caches that `GroupQueryAttention` quantises itself. */
const QUANTIZED = new Set(["int8", "uint8", "float8e4m3fn"]);

/** @throws {Refusal} when Hearth's cache cannot replace a cache, because of its type. */
export function requireFloatCaches(index: GraphIndex, inputs: DecoderInputs): void {
  for (const name of inputs.caches) {
    const { dtype } = index.inputs.get(name)!;
    if (dtype === "float32" || dtype === "float16") continue;
    const isOfNode = index.consumers(name).every(({ opType }) => opType === "GroupQueryAttention");
    if (QUANTIZED.has(dtype!) && isOfNode) continue;
    throw new Refusal(`Its cache is ${dtype}; Hearth's is float32 or float16.`);
  }
}
