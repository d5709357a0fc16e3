/**
 * Replaces division of rows by their length with norms by their root mean square, which kernels compute.
 *
 * @module
 */
import { type Graph, intAttribute, makeNode, type Tensor } from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/** Prevents a division by zero for rows of zeros; it is rounded away beside any other value. */
const EPSILON = 1e-12;

/** Replaces Euclidean `LpNormalization` by `SimplifiedLayerNormalization`. */
export function normByMeanSquare(probes: Probes): Graph {
  const { graph } = probes.index;
  const factors: Tensor[] = [];
  const nodes = graph.nodes.map((node) => {
    const [input] = node.inputs as [string];
    const [output] = node.outputs as [string];
    const isLength = node.opType === "LpNormalization" && (intAttribute(node, "p") ?? 2) === 2;
    if (!isLength) return node;
    const { shape, dtype } = probes.at(SHORT_LENGTHS[0]).value(input) ?? {};
    const axis = intAttribute(node, "axis") ?? -1;
    const size = shape?.at(-1);
    const isLast = axis === -1 || axis === (shape?.length ?? 0) - 1;
    if (!size || !isLast || (dtype !== "float32" && dtype !== "float16")) return node;
    // The length is √size times the root of the mean square.
    const Floats = dtype === "float32" ? Float32Array : Float16Array;
    const bytes = new Uint8Array(new Floats(size).fill(1 / Math.sqrt(size)).buffer);
    const name = `${output}/factors`;
    factors.push({ name, dtype, shape: [size], data: { kind: "memory", bytes }, rest: [] });
    return makeNode("SimplifiedLayerNormalization", [input, name], [output], {
      attributes: { axis: -1, epsilon: { float: EPSILON } },
    });
  });
  if (factors.length === 0) return graph;
  return { ...graph, nodes, initializers: [...graph.initializers, ...factors] };
}
