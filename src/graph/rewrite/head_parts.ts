/**
 * Replaces splits within each head by one split of the whole row. If a matrix computes, say, the query and the gate of
 * each head, head by head, its outputs are reordered: first the queries of all heads, then all gates.
 *
 * @module
 */
import { GraphIndex, readIntegers, readVector } from "../graph_index.ts";
import {
  getOpset,
  int64Tensor,
  intAttribute,
  listRead,
  makeNode,
  type ModelProto,
  type Node,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { storedBytes } from "../file/tensor.ts";

/** From this opset on, `Split` takes its sizes as an input. */
const SPLIT_BY_INPUT = 13;

/** A split of heads. */
interface HeadParts {
  readonly split: Node;
  /** `[batch, tokens, heads, size]`. */
  readonly reshape: Node;
  readonly shape: readonly [number, number, number, number];
  readonly sizes: readonly number[];
  readonly product: Node;
  /** The node that adds a vector to the product. */
  readonly add?: Node | undefined;
}

/** Replaces such splits in a model. */
export function splitRowsForHeads(model: ModelProto): ModelProto {
  if (getOpset(model) < SPLIT_BY_INPUT) return model;
  const { graph } = model;
  const index = new GraphIndex(graph);
  const replaced = new Map<Node, readonly Node[]>();
  const constants: Tensor[] = [];
  for (const node of graph.nodes) {
    const found = node.opType === "Split" ? findParts(index, node) : undefined;
    if (found === undefined) continue;
    const done = rewrite(index, found);
    for (const [old, nodes] of done.replaced) replaced.set(old, nodes);
    constants.push(...done.constants);
  }
  if (replaced.size === 0) return model;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  const initializers = listRead(nodes, [...graph.initializers, ...constants]);
  return withGraph(model, { nodes, initializers });
}

function findParts(index: GraphIndex, split: Node): HeadParts | undefined {
  const reshape = index.producers.get(split.inputs[0]!);
  const shape = readIntegers(index, reshape?.inputs[1]);
  const isLast = [-1, 3].includes(intAttribute(split, "axis") ?? 0);
  const isAlone = index.onlyConsumer(split.inputs[0]!) === split;
  if (reshape?.opType !== "Reshape" || shape?.length !== 4 || !isLast || !isAlone) return undefined;
  const [, , heads, size] = shape as [number, number, number, number];
  const even = size / split.outputs.length;
  const sizes = split.inputs[1]
    ? readIntegers(index, split.inputs[1])
    : split.outputs.map(() => even);
  const isWhole = sizes?.every(Number.isInteger) && sizes.reduce((sum, n) => sum + n, 0) === size;
  if (heads < 2 || sizes === undefined || !isWhole) return undefined;
  const [input] = reshape.inputs as [string];
  const last = index.producers.get(input);
  const add = last?.opType === "Add" ? last : undefined;
  const made = add?.inputs.find((name) => readVector(index, name) === undefined) ?? input;
  const product = index.producers.get(made);
  const isOwn = index.onlyConsumer(input) === reshape &&
    (add === undefined || index.onlyConsumer(made) === add);
  if (product === undefined || !isOwn || countOutputs(index, product) !== heads * size) {
    return undefined;
  }
  const vectors = (add?.inputs ?? []).filter((name) => name !== made);
  if (vectors.some((name) => readVector(index, name, heads * size) === undefined)) return undefined;
  return { split, reshape, shape: shape as [number, number, number, number], sizes, product, add };
}

/** The number of outputs of a product with a constant matrix; `undefined` if its outputs cannot be reordered. */
function countOutputs(index: GraphIndex, { opType, inputs, ...node }: Node): number | undefined {
  const weights = inputs.slice(1).filter((name) => name !== "");
  const tensors = weights.map((name) => index.constants.get(name));
  if (tensors.length === 0 || tensors.includes(undefined)) return undefined;
  if (opType === "MatMul") return tensors[0]!.shape.length === 2 ? tensors[0]!.shape[1] : undefined;
  // The fifth input, `g_idx`, reorders the matrix, which is not supported here.
  if (opType !== "MatMulNBits" || inputs[4]) return undefined;
  const n = intAttribute({ opType, inputs, ...node }, "N")!;
  return tensors.every((tensor) => storedBytes(tensor!) % n === 0) ? n : undefined;
}

function rewrite(index: GraphIndex, { split, reshape, shape, sizes, product, add }: HeadParts) {
  const [batch, tokens, heads, size] = shape;
  const constants: Tensor[] = [];
  const order = { heads, size, sizes };
  const ordered = (name: string, numRows: number) => {
    const tensor = index.constants.get(name);
    if (tensor === undefined) return name;
    const moved = reorder(tensor, { ...order, numRows, name: `${name} for ${split.outputs[0]}` });
    constants.push(moved);
    return moved.name;
  };
  const numRows = product.opType === "MatMul"
    ? index.constants.get(product.inputs[1]!)!.shape[0]!
    : 1;
  const inputs = product.inputs.map((name, i) => i === 0 ? name : ordered(name, numRows));
  const row = reshape.inputs[0]!;
  const parts = split.outputs.map((name) => `${name}/row`);
  const ints = (name: string, values: readonly number[]) => {
    const tensor = int64Tensor(`${split.outputs[0]}/${name}`, [values.length], values);
    constants.push(tensor);
    return tensor.name;
  };
  const widths = ints("widths", sizes.map((each) => heads * each));
  const replaced: (readonly [Node, readonly Node[]])[] = [
    [product, [{ ...product, inputs }]],
    [reshape, []],
    [split, [
      makeNode("Split", [row, widths], parts, { attributes: { axis: -1 } }),
      ...split.outputs.map((name, i) => {
        const part = ints(`shape_${i}`, [batch, tokens, heads, sizes[i]!]);
        return makeNode("Reshape", [parts[i]!, part], [name]);
      }),
    ]],
  ];
  if (add !== undefined) {
    replaced.push([add, [{ ...add, inputs: add.inputs.map((name) => ordered(name, 1)) }]]);
  }
  return { replaced, constants };
}

/** Reorders each row of a constant: first one part of all heads, then the next part. */
function reorder(
  source: Tensor,
  { name, numRows, heads, size, sizes }: {
    readonly name: string;
    readonly numRows: number;
    readonly heads: number;
    readonly size: number;
    readonly sizes: readonly number[];
  },
): Tensor {
  const length = storedBytes(source);
  const each = length / numRows / (heads * size);
  const starts = sizes.map((_, i) => sizes.slice(0, i).reduce((sum, n) => sum + n, 0));
  const parts = sizes.flatMap((count, i) =>
    Array.from({ length: heads }, (_, head) => ({
      from: (head * size + starts[i]!) * each,
      length: count * each,
    }))
  );
  const compute = ([bytes]: readonly Uint8Array[], into: Uint8Array) => {
    const stride = length / numRows;
    let at = 0;
    for (let row = 0; row < length; row += stride) {
      for (const part of parts) {
        into.set(bytes!.subarray(row + part.from, row + part.from + part.length), at);
        at += part.length;
      }
    }
  };
  return {
    ...source,
    name,
    data: { kind: "computed", sources: [source], length, compute },
    rest: [],
  };
}
