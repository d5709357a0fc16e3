/**
 * Makes parts of tokens' rows readable in place: the inputs of each layer, and heads that a graph joins with the
 * tokens.
 *
 * @module
 */
import {
  type Graph,
  int64Tensor,
  intAttribute,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";
import type { GraphIndex } from "../graph_index.ts";
import { readScalar } from "../graph_index.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/**
 * Replaces lookups of the layers' parts of a tensor `[1, tokens, layers, width]`, as Gemma 3n and 4 take the inputs of
 * each layer, by one split of each token's row.
 */
export function splitLayerInputs(probes: Probes): Graph {
  const { index } = probes;
  const { graph } = index;
  const lookups = Map.groupBy(
    graph.nodes.filter((node) => isLookup(index, node)),
    (node) => node.inputs[0]!,
  );
  const replaced = new Map<Node, readonly Node[]>();
  const constants: Tensor[] = [];
  for (const [tensor, nodes] of lookups) {
    const shape = probes.at(SHORT_LENGTHS[0]).value(tensor)?.shape;
    if (shape?.length !== 4 || nodes.length < 2) continue;
    const [, , numLayers, width] = shape as [number, number, number, number];
    const ints = (name: string, values: readonly number[]) => {
      const constant = int64Tensor(`${tensor}/${name}`, [values.length], values);
      constants.push(constant);
      return constant.name;
    };
    const parts = Array.from({ length: numLayers }, (_, layer) => `${tensor}/layer_${layer}`);
    const row = `${tensor}/row`;
    const split = [
      makeNode("Reshape", [tensor, ints("row_shape", [0, 0, numLayers * width])], [row]),
      makeNode("Split", [row, ints("widths", parts.map(() => width))], parts, {
        attributes: { axis: -1 },
      }),
    ];
    nodes.forEach((node, i) => {
      const layer = readScalar(index, node.inputs[1])!;
      const part = parts[layer < 0 ? layer + numLayers : layer]!;
      const identity = makeNode("Identity", [part], node.outputs);
      replaced.set(node, i === 0 ? [...split, identity] : [identity]);
    });
  }
  if (replaced.size === 0) return graph;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  return { ...graph, nodes, initializers: [...graph.initializers, ...constants] };
}

/** Whether a node takes one layer's part, and drops the axis. */
function isLookup(index: GraphIndex, node: Node): boolean {
  const [, layer] = node.inputs;
  const isOfLayers = node.opType === "Gather" && intAttribute(node, "axis") === 2;
  return isOfLayers && index.constants.get(layer!)?.shape.length === 0;
}

/** Operators that compute each element by itself, or each row along its last axis. */
const ROWWISE = new Set(
  ("Add Sub Mul Div Neg Cast Identity Sigmoid Tanh Softplus Exp Relu Gelu QuickGelu Silu Swish " +
    "RMSNormalization SimplifiedLayerNormalization LayerNormalization").split(" "),
);

/**
 * Gives heads an axis of their own where a graph reshapes rows `[1, tokens, heads * size]` to `[tokens * heads, size]`,
 * so that what is computed from them may cross between segments.
 */
export function keepTokenAxis(probes: Probes): Graph {
  const { index } = probes;
  const { graph } = index;
  const joins = graph.nodes.flatMap((node) => {
    const sizes = node.opType === "Reshape" ? readJoin(probes, node) : undefined;
    return sizes === undefined ? [] : [{ node, sizes }];
  });
  const reached = new Set(joins.flatMap(({ node }) => node.outputs));
  const isSmall = (name: string) => (index.constants.get(name)?.shape.length ?? 9) < 2;
  for (const { opType, inputs, outputs } of graph.nodes) {
    if (ROWWISE.has(opType) && inputs.some((name) => reached.has(name))) {
      for (const name of outputs) reached.add(name);
    }
  }
  const isKept = graph.nodes.every(({ opType, inputs }) => {
    if (!inputs.some((name) => reached.has(name))) return true;
    if (ROWWISE.has(opType)) return inputs.every((name) => reached.has(name) || isSmall(name));
    const target = probes.at(SHORT_LENGTHS[0]).value(inputs[1] ?? "")?.data;
    return opType === "Reshape" && target !== undefined && !target.includes(0);
  });
  if (joins.length === 0 || !isKept || graph.outputs.some(({ name }) => reached.has(name))) {
    return graph;
  }
  const constants = joins.map(({ node, sizes }) =>
    int64Tensor(`${node.outputs[0]}/heads`, [4], [0, 0, ...sizes])
  );
  const replaced = new Map(
    joins.map(({ node }, i) => [node, { ...node, inputs: [node.inputs[0]!, constants[i]!.name] }]),
  );
  return {
    ...graph,
    nodes: graph.nodes.map((node) => replaced.get(node) ?? node),
    initializers: [...graph.initializers, ...constants],
  };
}

/** Number and size of the heads that a `Reshape` joins with the tokens; `undefined` if it does something else. */
function readJoin(probes: Probes, node: Node): [heads: number, size: number] | undefined {
  const read = (name: string) => probes.short().map((run) => run.value(name)?.shape ?? []);
  const [from, to] = [read(node.inputs[0]!), read(node.outputs[0]!)];
  const [, , width = 0] = from[0]!;
  const size = to[0]![1] ?? 0;
  const heads = width / size;
  const isJoin = Number.isInteger(heads) && heads > 1 && from.every((shape, i) => {
    const { numTokens } = SHORT_LENGTHS[i]!;
    return shape.join() === [1, numTokens, width].join() &&
      to[i]!.join() === [numTokens * heads, size].join();
  });
  return isJoin ? [heads, size] : undefined;
}
