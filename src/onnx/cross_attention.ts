/**
 * Makes the attention to an encoder, where the decoder spells it out, a node that the cut knows.
 *
 * @module
 */
import { liftConstants } from "./decoder_inputs.ts";
import { GraphIndex, liveNodes } from "./graph_index.ts";
import { makeNode, type Model, type Node } from "./proto.ts";
import { findUnmaskedAttentions } from "./unmasked_attention.ts";

const MICROSOFT = "com.microsoft";
/** `TensorProto.DataType`, as `Cast` takes it. */
const CAST_TO = { float32: 1, float16: 10 } as const;

/** The inputs that an attention reads all its keys and values from: `[batch, heads, places, size]`. */
export interface CrossInputs {
  readonly keys: string;
  readonly values: string;
}

/** A graph whose attentions to an encoder are named nodes. */
export interface NamedCrossAttentions {
  readonly model: Model;
  /** By the node's name. */
  readonly inputsOf: ReadonlyMap<string, CrossInputs>;
}

/**
 * Puts a `MultiHeadAttention` where the graph attends to inputs that `isEncoded` tells, and to nothing else.
 *
 * To the cut it looks like an attention over a cache to which it adds a token, with the queries for that token's keys
 * and values. Whoever runs it must not add them, and let each token see all places.
 */
export function nameCrossAttentions(
  model: Model,
  isEncoded: (input: string) => boolean,
): NamedCrossAttentions {
  const graph = liftConstants(model.graph);
  const index = new GraphIndex(graph);
  const { found, run } = findUnmaskedAttentions(index);
  const inputsOf = new Map<string, CrossInputs>();
  const placed = new Map<Node, readonly Node[]>();
  for (const { q, k, v, output, heads, scale } of found) {
    if (!isEncoded(k.tensor) || !isEncoded(v.tensor)) continue;
    const name = `${output}/cross_attention`;
    const dtypeOf = (tensor: string) => run.value(tensor)!.dtype as keyof typeof CAST_TO;
    const cast = (from: string, to: string, dtype: keyof typeof CAST_TO) =>
      makeNode("Cast", [from], [to], { attributes: { to: CAST_TO[dtype] } });
    const isAlike = dtypeOf(q) === dtypeOf(k.tensor);
    const [queries, result] = isAlike ? [q, output] : [`${name}/queries`, `${name}/result`];
    const inputs = [queries, queries, queries, "", "", "", k.tensor, v.tensor];
    const node = makeNode("MultiHeadAttention", inputs, [result], {
      domain: MICROSOFT,
      attributes: { num_heads: heads, scale: { float: scale }, unidirectional: 1 },
      name,
    });
    inputsOf.set(name, { keys: k.tensor, values: v.tensor });
    placed.set(
      index.producers.get(output)!,
      isAlike ? [node] : [
        cast(q, queries, dtypeOf(k.tensor)),
        node,
        cast(result, output, dtypeOf(output)),
      ],
    );
  }
  const nodes = graph.nodes.flatMap((node) => placed.get(node) ?? [node]);
  const live = liveNodes(nodes, graph.outputs.map(({ name }) => name));
  return { model: { ...model, graph: { ...graph, nodes: live } }, inputsOf };
}
