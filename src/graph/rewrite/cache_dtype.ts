/**
 * Lets a graph append to its caches in the caches' own type.
 *
 * @module
 */
import { GraphIndex } from "../graph_index.ts";
import { makeNode, type ModelProto, type Node } from "../file/proto.ts";

/** `TensorProto.DataType`, as `Cast` takes it. */
const CAST_TO = { float32: 1, float16: 10 } as const;

/**
 * Rewrites `Concat(cast(past), new)` to `cast(Concat(past, cast(new)))` if `past` is an input, so that the cut finds
 * the `Concat` next to the cache. Values do not change as long as caches hold what was appended.
 */
export function appendInCacheDtype(model: ModelProto): ModelProto {
  const index = new GraphIndex(model.graph);
  const nodes = model.graph.nodes.flatMap((node) => {
    const [past, added] = node.inputs;
    const cast = index.producers.get(past ?? "");
    const cache = cast?.opType === "Cast" ? index.inputs.get(cast.inputs[0]!) : undefined;
    const isAppending = node.opType === "Concat" && node.inputs.length === 2;
    if (!isAppending || cache === undefined) return [node];
    const { name, dtype } = cache;
    if (dtype !== "float32" && dtype !== "float16") return [node];
    const output = node.outputs[0]!;
    const [row, joined] = [`${output}/row`, `${output}/joined`];
    const concat: Node = { ...node, inputs: [name, row], outputs: [joined] };
    return [
      makeNode("Cast", [added!], [row], { attributes: { to: CAST_TO[dtype] } }),
      concat,
      { ...cast!, name: output, inputs: [joined], outputs: [output] },
    ];
  });
  return { ...model, graph: { ...model.graph, nodes } };
}
