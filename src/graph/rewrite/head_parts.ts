/**
 * Reorders the outputs of matrices that compute queries, keys and values head by head, so that each of them is one part
 * of the row. Exports write such rows in many orders. Queries, keys and values may lie side by side for each head
 * (GPT-NeoX), each group of heads (Falcon, InternLM 2) or each part of the heads (CodeGen); or a head's queries lie
 * next to their gate (Qwen3.5).
 *
 * To find the matrix output that becomes each element of a head, the nodes in between are evaluated.
 *
 * @module
 */
import { Evaluation } from "../evaluate/evaluation.ts";
import { makeData, type Value } from "../evaluate/value.ts";
import { GraphIndex, readVector } from "../graph_index.ts";
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
} from "../file/proto.ts";
import { countElements, countStoredBytes } from "../file/tensor.ts";

/** From this opset on, `Split` takes its sizes as an input. */
const SPLIT_BY_INPUT = 13;
/** Numbers of tokens for which the nodes are evaluated. The number of heads can equal only one of the two. */
const NUM_TOKENS = [5, 7] as const;
/** Maximum number of outputs per original output, if heads of keys and values are repeated. */
const MOST_REPEATED = 4;

/** Operators that only move or repeat elements. */
const MOVING = new Set(
  ["Reshape", "Transpose", "Split", "Slice", "Gather", "Squeeze", "Unsqueeze", "Expand"],
);
/** Operators that take a part of their input. */
const TAKING = new Set(["Split", "Slice", "Gather"]);

/** A product with a constant matrix, and the node that adds a vector to it. */
interface Product {
  readonly node: Node;
  readonly add?: Node | undefined;
  /** The tensor that holds the sum or, if there is none, the product. */
  readonly output: string;
  readonly numOutputs: number;
}

/** A tensor that consists of some outputs of a product, in some order. */
interface Part {
  readonly tensor: string;
  /** Indices of the product's outputs that a token's row of the tensor holds. */
  readonly columns: readonly number[];
  /** Shape of the tensor. Tokens are on axis 1, or on axis 2 if the tensor is head-major. */
  readonly shape: readonly number[];
  readonly isHeadMajor: boolean;
}

/** The parts into which a graph divides the outputs of a product. */
interface Division {
  readonly parts: readonly Part[];
  /** The nodes between the product and its parts. */
  readonly moves: ReadonlySet<Node>;
}

/**
 * Reorders the outputs of products, and replaces the nodes after them by one split of each row.
 *
 * @param headSizes sizes of the heads that attentions read.
 */
export function splitRowsForHeads(
  model: ModelProto,
  headSizes: ReadonlySet<number> = new Set(),
): ModelProto {
  if (getOpset(model) < SPLIT_BY_INPUT) return model;
  const { graph } = model;
  const index = new GraphIndex(graph);
  const replaced = new Map<Node, readonly Node[]>();
  const constants: Tensor[] = [];
  for (const node of graph.nodes) {
    const product = findProduct(index, node);
    const division = product && findDivision(index, product, headSizes);
    if (division === undefined) continue;
    const done = rewrite(index, product!, division);
    for (const [old, nodes] of done.replaced) replaced.set(old, nodes);
    constants.push(...done.constants);
  }
  if (replaced.size === 0) return model;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  const initializers = listRead(nodes, [...graph.initializers, ...constants]);
  return withGraph(model, { nodes, initializers });
}

/** Reads the product that a node computes, and the sum with a constant vector if nothing else reads the product. */
function findProduct(index: GraphIndex, node: Node): Product | undefined {
  const numOutputs = countOutputs(index, node);
  if (numOutputs === undefined) return undefined;
  const [made] = node.outputs as [string];
  const add = index.onlyConsumer(made);
  const vector = add?.opType === "Add" ? add.inputs.find((name) => name !== made) : undefined;
  const isSum = vector !== undefined && readVector(index, vector, numOutputs) !== undefined;
  return isSum
    ? { node, add, output: add!.outputs[0]!, numOutputs }
    : { node, output: made, numOutputs };
}

/** The number of outputs of a product with a constant matrix. */
function countOutputs(index: GraphIndex, node: Node): number | undefined {
  const { opType, inputs } = node;
  if (opType !== "MatMul" && opType !== "MatMulNBits") return undefined;
  const weights = inputs.slice(1).filter((name) => name !== "");
  const tensors = weights.map((name) => index.constants.get(name));
  if (tensors.length === 0 || tensors.includes(undefined)) return undefined;
  if (opType === "MatMul") return tensors[0]!.shape.length === 2 ? tensors[0]!.shape[1] : undefined;
  // The fifth input, `g_idx`, reorders the matrix, which is not supported here.
  if (inputs[4]) return undefined;
  const n = readIntAttribute(node, "N")!;
  return tensors.every((tensor) => countStoredBytes(tensor!) % n === 0) ? n : undefined;
}

/** Lists the nodes after a tensor that only move its elements, in the graph's order. */
function listMoves(index: GraphIndex, tensor: string): Node[] {
  const moved = new Set([tensor]);
  return index.graph.nodes.filter(({ opType, inputs, outputs }) => {
    const isMove = MOVING.has(opType) && moved.has(inputs[0]!) &&
      inputs.slice(1).every((name) => name === "" || index.constants.has(name));
    if (isMove) { for (const name of outputs) moved.add(name); }
    return isMove;
  });
}

/**
 * Finds the tensors into which moves divide the outputs of a product: whole heads, and tensors that other nodes read.
 *
 * @returns `undefined` if the outputs are already in the order of these tensors, or if a part differs from token to
 * token.
 */
function findDivision(
  index: GraphIndex,
  { output, numOutputs }: Product,
  headSizes: ReadonlySet<number>,
): Division | undefined {
  const moves = listMoves(index, output);
  if (!moves.some(({ opType }) => TAKING.has(opType))) return undefined;
  // A single split of the row, for example into a gate and its factor, keeps the order.
  if (moves.length === 1 && moves[0]!.opType === "Split") return undefined;
  const moving = new GraphIndex({ ...index.graph, nodes: moves });
  const runs = NUM_TOKENS.map((numTokens) => {
    const shape = [1, numTokens, numOutputs];
    const data = makeData(numTokens * numOutputs, (i) => i);
    return new Evaluation(moving, new Map([[output, { dtype: "float32", shape, data }]]));
  });
  const areHeads = (name: string) => {
    const shapes = runs.map((run) => run.value(name)?.shape ?? []);
    const [, second, third, size] = shapes[0]!;
    return shapes.every((shape) => shape.length === 4 && shape[0] === 1) && headSizes.has(size!) &&
      [second, third].includes(NUM_TOKENS[0]) && shapes[1]!.includes(NUM_TOKENS[1]);
  };
  /** Whether some heads of a tensor are taken, rather than parts of each head. */
  const areDivided = (name: string): boolean =>
    moving.consumers(name).some(({ outputs }) =>
      outputs.some((each) => {
        const [before, after] = [name, each].map((tensor) => runs[0]!.value(tensor)?.shape ?? []);
        const isPart = countElements(after!) < countElements(before!);
        return (isPart && after!.at(-1) === before!.at(-1)) || areDivided(each);
      })
    );
  const isMove = new Set(moves);
  const passed = new Set<Node>();
  const tensors: string[] = [];
  const open = [output];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const consumers = index.consumers(name);
    const isEnd = consumers.length === 0 || index.isOutput(name) ||
      consumers.some((node) => !isMove.has(node)) ||
      (name !== output && areHeads(name) && !areDivided(name));
    if (isEnd) {
      tensors.push(name);
      continue;
    }
    for (const node of consumers) passed.add(node);
    open.push(...consumers.toReversed().flatMap(({ outputs }) => outputs.toReversed()));
  }
  if (tensors.includes(output)) return undefined;
  const parts = tensors.map((tensor) => readPart(runs.map((run) => run.value(tensor)), tensor));
  if (parts.includes(undefined)) return undefined;
  const columns = parts.flatMap((part) => part!.columns);
  // If all nodes that take parts read the product itself, its rows are already divided in place.
  const isOfRows = moves.every(({ opType, inputs }) => !TAKING.has(opType) || inputs[0] === output);
  const isOrdered = isOfRows && columns.every((column, i) => column === i);
  const isTooLong = columns.length > MOST_REPEATED * numOutputs;
  return isOrdered || isTooLong ? undefined : { parts: parts as Part[], moves: passed };
}

/** Finds which of the product's outputs a tensor holds, by its values in the two runs. */
function readPart(values: readonly (Value | undefined)[], tensor: string): Part | undefined {
  const [first, second] = values.map((value, i) => value && readColumns(value, NUM_TOKENS[i]!));
  const isSame = first !== undefined && second !== undefined &&
    first.columns.length === second.columns.length &&
    first.columns.every((column, i) => column === second.columns[i]);
  return isSame ? { tensor, shape: values[0]!.shape, ...first } : undefined;
}

/** Finds which of the product's outputs a row of a tensor holds, if they are the same for each token. */
function readColumns(
  { shape, data }: Value,
  numTokens: number,
): Pick<Part, "columns" | "isHeadMajor"> | undefined {
  const isHeadMajor = shape[1] !== numTokens;
  const hasTokens = isHeadMajor ? shape.length === 4 && shape[2] === numTokens : shape.length > 2;
  if (data === undefined || shape[0] !== 1 || !hasTokens) return undefined;
  const width = countElements(shape) / numTokens;
  const size = shape.at(-1)!;
  const at = (token: number, i: number) =>
    isHeadMajor ? (Math.floor(i / size) * numTokens + token) * size + i % size : token * width + i;
  const columns = Array.from({ length: width }, (_, i) => data[at(0, i)]!);
  const numOutputs = data[at(1, 0)]! - columns[0]!;
  for (let token = 1; token < numTokens; token++) {
    const first = token * numOutputs;
    if (columns.some((column, i) => data[at(token, i)] !== first + column)) return undefined;
  }
  return { columns, isHeadMajor };
}

function rewrite(
  index: GraphIndex,
  { node, add, output, numOutputs }: Product,
  { parts, moves }: Division,
) {
  const constants: Tensor[] = [];
  const columns = parts.flatMap((part) => part.columns);
  const isMoved = columns.length !== numOutputs || columns.some((column, i) => column !== i);
  const ordered = (name: string, axis: number) => {
    const tensor = index.constants.get(name);
    if (tensor === undefined || !isMoved) return name;
    const moved = reorder(tensor, { axis, columns, numOutputs, name: `${name} for ${output}` });
    constants.push(moved);
    return moved.name;
  };
  const axis = node.opType === "MatMul" ? 1 : 0;
  const ints = (name: string, values: readonly number[]) => {
    const tensor = int64Tensor(`${output}/${name}`, [values.length], values);
    constants.push(tensor);
    return tensor.name;
  };
  const widths = ints("widths", parts.map((part) => part.columns.length));
  const split = makeNode("Split", [output, widths], parts.map(({ tensor }) => `${tensor}/row`), {
    attributes: { axis: -1 },
  });
  const product: Node = {
    ...node,
    inputs: node.inputs.map((name, i) => i === 0 ? name : ordered(name, axis)),
    attributes: node.attributes.map((each) =>
      each.name === "N" ? attribute("N", columns.length) : each
    ),
  };
  const divided = [
    split,
    ...parts.flatMap(({ tensor, shape, isHeadMajor }, i) => {
      const sizes = isHeadMajor ? [shape[1]!, shape[3]!] : shape.slice(2);
      const heads = isHeadMajor ? `${tensor}/heads` : tensor;
      const reshape = makeNode("Reshape", [
        split.outputs[i]!,
        // Some products have no axis for the batch.
        ints(`shape_${i}`, [1, -1, ...sizes]),
      ], [heads]);
      const transpose = makeNode("Transpose", [heads], [tensor], {
        attributes: { perm: [0, 2, 1, 3] },
      });
      return isHeadMajor ? [reshape, transpose] : [reshape];
    }),
  ];
  const sum = add && {
    ...add,
    inputs: add.inputs.map((name) => index.constants.has(name) ? ordered(name, -1) : name),
  };
  const replaced = new Map<Node, readonly Node[]>([...moves].map((move) => [move, []]));
  replaced.set(node, sum ? [product] : [product, ...divided]);
  if (sum) replaced.set(add, [sum, ...divided]);
  return { replaced, constants };
}

/**
 * Takes a constant's parts for some outputs of the product. An axis divides the constant among the outputs, and may
 * have fewer or more indices than there are outputs.
 */
function reorder(
  source: Tensor,
  { name, axis, columns, numOutputs }: {
    readonly name: string;
    readonly axis: number;
    readonly columns: readonly number[];
    readonly numOutputs: number;
  },
): Tensor {
  const at = axis < 0 ? source.shape.length + axis : axis;
  const outer = countElements(source.shape.slice(0, at));
  const bytes = countStoredBytes(source);
  const each = bytes / outer / numOutputs;
  const length = bytes / numOutputs * columns.length;
  const runs: { from: number; length: number }[] = [];
  for (const column of columns) {
    const last = runs.at(-1);
    if (last && last.from + last.length === column * each) last.length += each;
    else runs.push({ from: column * each, length: each });
  }
  const compute = ([stored]: readonly Uint8Array[], into: Uint8Array) => {
    const stride = bytes / outer;
    let written = 0;
    for (let start = 0; start < bytes; start += stride) {
      for (const run of runs) {
        const from = start + run.from;
        into.set(stored!.subarray(from, from + run.length), written);
        written += run.length;
      }
    }
  };
  return {
    ...source,
    name,
    shape: source.shape.with(at, source.shape[at]! / numOutputs * columns.length),
    data: { kind: "computed", sources: [source], length, compute },
    rest: [],
  };
}
