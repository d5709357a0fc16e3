/**
 * Moves transposes out of the way of what treats elements alike: exporters compute around a convolution in its own order,
 * `[batch, channels, tokens]`.
 *
 * @module
 */
import { ELEMENTWISE_RULES } from "../evaluate/elementwise.ts";
import { countElements } from "../file/dtype.ts";
import {
  attribute,
  type Graph,
  intAttribute,
  intsAttribute,
  makeNode,
  type Node,
} from "../file/proto.ts";
import { GraphIndex, liveNodes } from "../graph_index.ts";

const SWAP = "0,2,1";

/**
 * The graph with every tensor computed token-major where it is read so: `Transpose(f(Transpose(x)))` as `f(x)`, with
 * elementwise operators, `Split` and `Concat` in between.
 *
 * @param wanted the outputs to keep.
 */
export function computeTokenMajor(graph: Graph, wanted: readonly string[]): Graph {
  const index = new GraphIndex(graph);
  /** Token-major tensors by the names of those that hold the same with tokens last. */
  const twins = new Map<string, string>();
  const nodes = graph.nodes.flatMap((node): Node[] => {
    const [input, output] = [node.inputs[0]!, node.outputs[0]!];
    if (node.opType === "Transpose" && intsAttribute(node, "perm")?.join() === SWAP) {
      const twin = twins.get(input);
      if (twin !== undefined) return [makeNode("Identity", [twin], [output])];
      twins.set(output, input);
      return [node];
    }
    const twin = findTwin(index, node, twins);
    if (twin === undefined) return [node];
    node.outputs.forEach((name, i) => twins.set(name, twin.outputs[i]!));
    return [node, twin];
  });
  return { ...graph, nodes: liveNodes(nodes, wanted) };
}

/** The node that computes a node's results token-major from its operands'; `undefined` where there is none. */
function findTwin(
  { constants }: GraphIndex,
  node: Node,
  twins: ReadonlyMap<string, string>,
): Node | undefined {
  const isJoining = node.opType === "Split" || node.opType === "Concat";
  if (!isJoining && !(node.opType in ELEMENTWISE_RULES)) return undefined;
  if (!node.inputs.some((name) => twins.has(name))) return undefined;
  const inputs = node.inputs.map((name, i) => {
    const twin = twins.get(name);
    const constant = constants.get(name);
    const isSizes = node.opType === "Split" && i === 1;
    const isScalar = constant !== undefined && countElements(constant.shape) === 1 && !isJoining;
    return twin ?? (isSizes || isScalar ? name : undefined);
  });
  if (inputs.includes(undefined)) return undefined;
  const axis = intAttribute(node, "axis") ?? 0;
  if (isJoining && axis !== 1 && axis !== -2) return undefined;
  return {
    ...node,
    name: `${node.outputs[0]}/token_major`,
    inputs: inputs as string[],
    outputs: node.outputs.map((name) => `${name}/token_major`),
    attributes: isJoining
      ? [...node.attributes.filter(({ name }) => name !== "axis"), attribute("axis", 2)]
      : node.attributes,
  };
}
