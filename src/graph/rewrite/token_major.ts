/**
 * Removes transposes around elementwise operators: exporters compute around a convolution in its own order, `[batch,
 * channels, tokens]`.
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
 * Computes tensors token-major if they are only read transposed: `Transpose(f(Transpose(x)))` becomes `f(x)`, with
 * elementwise operators, `Split` and `Concat` in between.
 *
 * @param wanted the outputs to keep.
 */
export function computeTokenMajor(graph: Graph, wanted: readonly string[]): Graph {
  const index = new GraphIndex(graph);
  /** The token-major twin of each tensor that has the tokens last. */
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

/**
 * A node that computes the results of another token-major, from the token-major twins of its operands; `undefined` if
 * that is not possible.
 */
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
