/**
 * Replaces slices that divide the outputs of a product among them (queries, keys and values of one matrix; gate and up)
 * by one split, whose parts can be read in place.
 *
 * @module
 */
import { GraphIndex, readIntegers, readVector } from "../graph_index.ts";
import {
  getOpset,
  int64Tensor,
  intAttribute,
  makeNode,
  type ModelProto,
  type Node,
  withGraph,
} from "../file/proto.ts";

/** From this opset on, `Split` takes its sizes as an input. */
const SPLIT_BY_INPUT = 13;

interface Part {
  readonly node: Node;
  readonly from: number;
  readonly to: number;
}

/** Replaces slices by a split if together they are all of a product's outputs, each once. */
export function slicesToSplits(model: ModelProto): ModelProto {
  if (getOpset(model) < SPLIT_BY_INPUT) return model;
  const index = new GraphIndex(model.graph);
  const slices = model.graph.nodes.filter(({ opType }) => opType === "Slice");
  const replaced = new Map<Node, readonly Node[]>();
  const sizes: ReturnType<typeof int64Tensor>[] = [];
  for (const [input, nodes] of Map.groupBy(slices, ({ inputs }) => inputs[0]!)) {
    const width = countOutputs(index, input);
    if (width === undefined || nodes.length < 2) continue;
    const parts = nodes.flatMap((node) => readPart(index, node, width) ?? [])
      .sort((a, b) => a.from - b.from);
    const isWhole = parts.length === nodes.length && parts.at(-1)!.to === width &&
      parts.every(({ from }, i) => from === (parts[i - 1]?.to ?? 0));
    if (!isWhole) continue;
    const lengths = parts.map(({ from, to }) => to - from);
    const size = int64Tensor(`${input}/sizes`, [lengths.length], lengths);
    const outputs = parts.map(({ node }) => node.outputs[0]!);
    sizes.push(size);
    for (const node of nodes) replaced.set(node, []);
    replaced.set(nodes[0]!, [
      makeNode("Split", [input, size.name], outputs, { attributes: { axis: -1 } }),
    ]);
  }
  if (replaced.size === 0) return model;
  const { graph } = model;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  return withGraph(model, { nodes, initializers: [...graph.initializers, ...sizes] });
}

/** The number of outputs of the product behind a tensor `[1, tokens, outputs]`, with or without a bias. */
function countOutputs(index: GraphIndex, name: string): number | undefined {
  const node = index.producers.get(name);
  if (node?.opType === "MatMulNBits") return intAttribute(node, "N");
  if (node?.opType === "MatMul") {
    const shape = index.constants.get(node.inputs[1]!)?.shape;
    return shape?.length === 2 ? shape[1] : undefined;
  }
  if (node?.opType !== "Add") return undefined;
  const product = node.inputs.find((input) => readVector(index, input) === undefined);
  return node.inputs.length === 2 && product ? countOutputs(index, product) : undefined;
}

/** The contiguous range of a row that a slice takes. */
function readPart(index: GraphIndex, node: Node, width: number): Part | undefined {
  const [starts, ends, axes, steps = [1]] = node.inputs.slice(1).map((name) =>
    readIntegers(index, name)
  );
  const isRow = axes?.length === 1 && (axes[0] === -1 || axes[0] === 2) && steps[0] === 1;
  const [from, end] = [starts?.[0], ends?.[0]];
  if (!isRow || from === undefined || end === undefined || from < 0 || end < 0) return undefined;
  const to = Math.min(end, width);
  return from < to ? { node, from, to } : undefined;
}
