/**
 * Joins products that read the same rows (queries, keys and values; gate and up) into one product and a split.
 *
 * @module
 */
import { countElementBytes, countElements, countStoredBytes } from "../graph/file/tensor.ts";
import { GraphIndex, readVector } from "../graph/graph_index.ts";
import {
  attribute,
  getOpset,
  int64Tensor,
  listRead,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  type Tensor,
  withGraph,
} from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";

/** A product, and the constant vector that is added to its result, if nothing else reads the result. */
interface Part {
  readonly product: Node;
  /** Number of outputs. */
  readonly n: number;
  readonly bias?: { readonly node: Node; readonly vector: Tensor } | undefined;
}

/** From this operator set on, `split` is an input rather than an attribute. */
const SPLIT_BY_INPUT = 13;

/** A key that products must share to be joined; `undefined` if the node cannot be joined. */
function toKey(node: Node, index: GraphIndex): string | undefined {
  const [input, ...constants] = node.inputs;
  const weights = constants.filter((name) => name !== "").map((name) => index.constants.get(name));
  if (weights.length === 0 || weights.includes(undefined)) return undefined;
  const types = weights.map((tensor) => tensor!.dtype);
  if (node.opType === "MatMulNBits" && weights.length <= 3 && constants.length <= 3) {
    const sizes = ["K", "bits", "block_size"].map((name) => readIntAttribute(node, name));
    return JSON.stringify([input, node.opType, types, sizes, weights.length]);
  }
  if (node.opType === "MatMul" && weights[0]!.shape.length === 2) {
    return JSON.stringify([input, node.opType, types, weights[0]!.shape[0]]);
  }
  return undefined;
}

function toPart(product: Node, index: GraphIndex): Part {
  const n = product.opType === "MatMul"
    ? index.constants.get(product.inputs[1]!)!.shape[1]!
    : readIntAttribute(product, "N")!;
  const add = index.onlyConsumer(product.outputs[0]!);
  const other = add?.opType === "Add" && add.inputs.find((name) => name !== product.outputs[0]);
  const vector = other ? readVector(index, other, n) : undefined;
  return { product, n, bias: vector && { node: add!, vector } };
}

/** Builds the nodes that replace products with the same key. */
function join(parts: readonly Part[], index: GraphIndex, opset: number) {
  const [{ product: first }] = parts as [Part];
  const total = parts.reduce((sum, { n }) => sum + n, 0);
  const name = `${first.outputs[0]}/joined`;
  const listConstants = (node: Node) => node.inputs.slice(1).filter((input) => input !== "");
  const axis = first.opType === "MatMul" ? 1 : 0;
  const weights = listConstants(first).map((_, position) =>
    concatenate(
      `${name}/weights_${position}`,
      parts.map(({ product }) => index.constants.get(listConstants(product)[position]!)!),
      axis,
    )
  );
  const attributes = first.attributes.filter(({ name }) => name !== "N");
  const product: Node = {
    ...first,
    inputs: [first.inputs[0]!, ...weights.map((tensor) => tensor.name)],
    outputs: [name],
    attributes: first.opType === "MatMul" ? attributes : [...attributes, attribute("N", total)],
  };
  const hasBias = parts.some(({ bias }) => bias !== undefined);
  // In some models keys have no bias.
  const bias = hasBias
    ? concatenate(`${name}/bias`, parts.map(({ bias, n }) => bias?.vector ?? zeros(parts, n)), 0)
    : undefined;
  const biased = `${name}/biased`;
  const sizes = parts.map(({ n }) => n);
  const split = int64Tensor(`${name}/sizes`, [sizes.length], sizes);
  const outputs = parts.map(({ product, bias }) => (bias?.node ?? product).outputs[0]!);
  const takesInput = opset >= SPLIT_BY_INPUT;
  return {
    nodes: [
      product,
      ...bias ? [makeNode("Add", [name, bias.name], [biased])] : [],
      makeNode("Split", [bias ? biased : name, ...takesInput ? [split.name] : []], outputs, {
        attributes: { axis: -1, ...takesInput ? {} : { split: sizes } },
      }),
    ],
    constants: [...weights, ...bias ? [bias] : [], ...takesInput ? [split] : []],
    dropped: parts.flatMap(({ bias }) => bias?.node ?? []),
  };
}

/** A bias of zeros, of the same data type as the other biases. */
function zeros(parts: readonly Part[], length: number): Tensor {
  const { dtype } = parts.find(({ bias }) => bias !== undefined)!.bias!.vector;
  const bytes = new Uint8Array(countElementBytes(dtype, length));
  return { name: "zeros", dtype, shape: [length], data: { kind: "memory", bytes }, rest: [] };
}

/** Limits on the products that are joined. */
export interface MergeOptions {
  /** Maximum number of bytes of a joined constant. */
  readonly maxBytes: number;
  /** Each product's number of outputs must be a multiple of this, because kernels compute outputs in whole groups. */
  readonly outputsMultiple: number;
}

/**
 * Replaces products that only differ in their weights by one product and a split, so that their rows are read once. The
 * joined constants are computed when they are read.
 */
export function mergeProducts(
  model: ModelProto,
  { maxBytes, outputsMultiple }: MergeOptions,
): ModelProto {
  const index = new GraphIndex(model.graph);
  const groups = Map.groupBy(model.graph.nodes, (node) => toKey(node, index));
  const replaced = new Map<Node, readonly Node[]>();
  const constants: Tensor[] = [];
  for (const [key, nodes] of groups) {
    if (key === undefined || nodes.length < 2) continue;
    const parts = nodes.map((node) => toPart(node, index));
    const isRead = ({ product }: Part) =>
      product.inputs.slice(1).every((name) => name === "" || index.onlyConsumer(name) === product);
    if (!parts.every((part) => part.n % outputsMultiple === 0 && isRead(part))) continue;
    // Products are not joined if a bias has leading axes of size 1.
    const vectors = parts.flatMap(({ bias }) => bias?.vector ?? []);
    if (vectors.some(({ shape }) => shape.length !== 1)) continue;
    const joined = join(parts, index, getOpset(model));
    if (joined.constants.some((tensor) => countStoredBytes(tensor) > maxBytes)) continue;
    constants.push(...joined.constants);
    for (const node of [...nodes, ...joined.dropped]) replaced.set(node, []);
    replaced.set(nodes[0]!, joined.nodes);
  }
  if (replaced.size === 0) return model;
  const nodes = model.graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  const initializers = listRead(nodes, [...model.graph.initializers, ...constants]);
  return withGraph(model, { nodes, initializers });
}

/** Concatenates constants along their first axis, or along the last of two. The result is computed when it is read. */
function concatenate(name: string, tensors: readonly Tensor[], axis: 0 | 1): Tensor {
  const length = tensors.reduce((sum, tensor) => sum + countStoredBytes(tensor), 0);
  const [{ dtype, shape }] = tensors as [Tensor];
  const total = tensors.reduce((sum, tensor) => sum + tensor.shape[axis]!, 0);
  const numRows = axis === 0 ? 1 : shape[0]!;
  return {
    name,
    dtype,
    shape: shape.map((size, i) => i === axis ? total : size),
    data: {
      kind: "rows",
      numRows,
      parts: tensors.map((source) => ({
        source,
        from: 0,
        length: countStoredBytes(source) / numRows,
      })),
      length,
    },
    rest: [],
  };
}

/** Concatenates vectors, whatever their shapes. @throws {Refusal} when they differ in type. */
export function joinVectors(vectors: readonly Tensor[]): Tensor {
  const [first, ...others] = vectors as [Tensor, ...Tensor[]];
  if (others.length === 0) return first;
  const other = others.find(({ dtype }) => dtype !== first.dtype);
  if (other !== undefined) {
    throw new Refusal(`Its constants "${first.name}" and "${other.name}" differ in type.`);
  }
  const name = vectors.map((vector) => vector.name).join(", ");
  return concatenate(
    name,
    vectors.map((vector) => ({ ...vector, shape: [countElements(vector.shape)] })),
    0,
  );
}
