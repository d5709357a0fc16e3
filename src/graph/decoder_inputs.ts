/**
 * Finds what the inputs and outputs of a decoder's or an encoder's graph mean.
 *
 * @module
 */
import type { Evaluation } from "./evaluate/evaluation.ts";
import { GraphIndex } from "./graph_index.ts";
import {
  type Graph,
  hasSubgraph,
  int64Tensor,
  makeNode,
  type Node,
  readIntAttribute,
  type Tensor,
  type ValueInfo,
} from "./file/proto.ts";
import { makeValueInfo } from "./file/proto_codec.ts";
import { toDtypeCode } from "./file/tensor.ts";
import { type DecoderInputs, Probes, SHORT_LENGTHS } from "./probes.ts";
import { Refusal } from "./refusal.ts";

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

/**
 * Changes int32 inputs for token ids and positions to int64, the type in which they are fed. Nodes cast them to int32.
 */
export function widenIds(graph: Graph): Graph {
  const ids = new Set(
    graph.inputs.filter(({ name, dtype }) =>
      dtype === "int32" && (name === "input_ids" || name === "position_ids")
    ).map(({ name }) => name),
  );
  // Nested graphs, which are not rewritten here, also read inputs by name.
  if (ids.size === 0 || graph.nodes.some(hasSubgraph)) return graph;
  const narrow = (name: string) => ids.has(name) ? `${name}/int32` : name;
  const casts = [...ids].map((name) =>
    makeNode("Cast", [name], [narrow(name)], { attributes: { to: toDtypeCode("int32") } })
  );
  const nodes = graph.nodes.map((node) => ({ ...node, inputs: node.inputs.map(narrow) }));
  const inputs = graph.inputs.map((info) =>
    ids.has(info.name)
      ? makeValueInfo(
        info.name,
        "int64",
        (info.shape ?? ["batch", "tokens"]).map((size, axis) => size ?? `${info.name}_${axis}`),
      )
      : info
  );
  return { ...graph, inputs, nodes: [...casts, ...nodes] };
}

/** Whether a cache has its heads on the axis of the batch: `[batch * heads, …]`. */
function hasMergedHeads(info: ValueInfo): boolean {
  const { name, shape } = info;
  return name.startsWith("past") && shape?.length === 3 && !hasFixedSize(info) &&
    shape.slice(1).some((size) => typeof size === "number");
}

/**
 * Finds the rows `[1, tokens, heads, size]` that nodes rearrange to `tensor`, which is `[heads, size, tokens]` or
 * `[heads, tokens, size]`.
 */
function findRowsOfHeads(
  index: GraphIndex,
  run: Evaluation,
  tensor: string,
  { heads, size }: { readonly heads: number; readonly size: number },
): string | undefined {
  const shape = run.value(tensor)?.shape;
  const { numTokens } = SHORT_LENGTHS[0];
  const isTransposed = shape?.join() === [heads, size, numTokens].join();
  for (let name: string | undefined = tensor; name !== undefined;) {
    const rows = run.value(name);
    if (rows?.shape.join() === [1, numTokens, heads, size].join()) {
      const data = Float64Array.from({ length: numTokens * heads * size }, (_, i) => i);
      const got = run.valueWith(tensor, new Map([[name, { ...rows, data }]]))?.data;
      const isInOrder = got?.every((x, i) => {
        const [head, within] = [Math.floor(i / (numTokens * size)), i % (numTokens * size)];
        const [token, element] = isTransposed
          ? [within % numTokens, Math.floor(within / numTokens)]
          : [Math.floor(within / size), within % size];
        return x === (token * heads + head) * size + element;
      });
      if (isInOrder) return name;
    }
    const node = index.producers.get(name);
    name = node && ["Reshape", "Transpose"].includes(node.opType) ? node.inputs[0] : undefined;
  }
  return undefined;
}

/**
 * Gives caches an axis of heads, `[batch, heads, past, size]`. Older exports of BLOOM and Falcon merge heads with the
 * batch: keys are `[batch * heads, size, past]` or, like values, `[batch * heads, past, size]`.
 */
export function splitCacheHeads(graph: Graph): Graph {
  const merged = graph.inputs.filter(hasMergedHeads);
  const index = new GraphIndex(graph);
  const tokens = index.inputs.get("input_ids");
  if (merged.length === 0 || tokens === undefined) return graph;
  const [mask, positions] = ["attention_mask", "position_ids"].map((name) =>
    index.inputs.get(name)
  );
  const inputs = { tokens, kind: "ids", mask, positions, caches: new Set<string>() } as const;
  const findConcat = (name: string) =>
    index.consumers(name).find(({ opType, inputs }) =>
      opType === "Concat" && inputs.length === 2 && inputs[0] === name
    );
  // All layers have as many heads as the first layer, whose new rows do not depend on the past.
  const first = findConcat(merged[0]!.name)?.inputs[1] ?? "";
  const heads = new Probes(index, inputs).at(SHORT_LENGTHS[0]).value(first)?.shape[0];
  if (heads === undefined) return graph;
  const empty = new Map(merged.map(({ name, dtype, shape }) => {
    const sizes = shape!.slice(1).map((size) => typeof size === "number" ? size : 0);
    return [name, { dtype: dtype!, shape: [heads, ...sizes] }];
  }));
  const run = new Probes(index, inputs, () => empty).at(SHORT_LENGTHS[0]);
  const caches = new Map<string, ValueInfo>();
  const before: Node[] = [];
  const replaced = new Map<Node, readonly Node[]>();
  const constants: Tensor[] = [];
  for (const { name, dtype, shape } of merged) {
    const isTransposed = typeof shape![1] === "number";
    const size = shape![isTransposed ? 1 : 2] as number;
    const axis = isTransposed ? 2 : 1;
    const concat = findConcat(name);
    const joinsAt = concat && readIntAttribute(concat, "axis");
    const rows = concat && findRowsOfHeads(index, run, concat.inputs[1]!, { heads, size });
    if (rows === undefined || (joinsAt !== axis && joinsAt !== axis - 3)) return graph;
    const together = int64Tensor(`${name}/together`, [3], [heads, -1, size]);
    constants.push(together);
    const swap = (from: string, to: string) =>
      makeNode(isTransposed ? "Transpose" : "Identity", [from], [to], {
        attributes: isTransposed ? { perm: [0, 2, 1] } : {},
      });
    const merge = (from: string, to: string) => [
      makeNode("Reshape", [from, together.name], [`${to}/rows`]),
      swap(`${to}/rows`, to),
    ];
    const at = (part: string) => `${name}/${part}`;
    caches.set(name, makeValueInfo(name, dtype!, ["batch_size", heads, "past_length", size]));
    before.push(...merge(name, at("merged")));
    replaced.set(concat!, [
      makeNode("Transpose", [rows], [at("added")], { attributes: { perm: [0, 2, 1, 3] } }),
      makeNode("Concat", [name, at("added")], [at("all")], { attributes: { axis: 2 } }),
      ...merge(at("all"), concat!.outputs[0]!),
    ]);
  }
  const nodes = graph.nodes.flatMap((node) =>
    replaced.get(node) ?? {
      ...node,
      inputs: node.inputs.map((name) => caches.has(name) ? `${name}/merged` : name),
    }
  );
  return {
    ...graph,
    inputs: graph.inputs.map((info) => caches.get(info.name) ?? info),
    nodes: [...before, ...nodes],
    initializers: [...graph.initializers, ...constants],
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

/** Fixes the input for the number of wanted logits at 0, which means all. The cut chooses rows itself. */
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

/** @throws {Refusal} when a cache of the graph has a type that Hearth's cache cannot replace. */
export function requireFloatCaches(index: GraphIndex, inputs: DecoderInputs): void {
  for (const name of inputs.caches) {
    const { dtype } = index.inputs.get(name)!;
    if (dtype === "float32" || dtype === "float16") continue;
    const isOfNode = index.consumers(name).every(({ opType }) => opType === "GroupQueryAttention");
    if (QUANTIZED.has(dtype!) && isOfNode) continue;
    throw new Refusal(`Its cache is ${dtype}; Hearth's is float32 or float16.`);
  }
}
