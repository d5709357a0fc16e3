/**
 * Nodes of a segment that compute rows, other than products and norms. Reshapes are removed first, because kernels only
 * see rows. Parts of rows (Split) and selected rows (Gather) are compiled here, elementwise operations in
 * `elementwise.ts`.
 *
 * @module
 */
import {
  describeNode,
  findLiveNodes,
  followBack,
  GraphIndex,
  readIntegers,
} from "../graph/graph_index.ts";
import {
  type Graph,
  makeNode,
  type Node,
  readIntAttribute,
  readIntsAttribute,
} from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";
import { findNorm, type FoundNorm, readSkipBias } from "./norms.ts";
import { findElem, findTransposed, type ProductPlan, readSplitSizes } from "./product_plan.ts";
import type { ProgramBuilder, Rows } from "./program_builder.ts";
import { ROWS } from "../graph/cut/segments.ts";
import type { Segment, TensorPort } from "../graph/graph_cut.ts";
import { countElements, type TensorType, toDtype } from "../graph/file/tensor.ts";
import { toElem } from "../gpu/kernel.ts";

/** A segment that is being compiled. */
export interface RowSearch {
  readonly index: GraphIndex;
  readonly program: ProgramBuilder;
  /** Returns the rows of a tensor, which are computed if they have not been yet. */
  readonly getRows: (name: string) => Rows;
  /** Whether a tensor has been computed. */
  readonly isKnown: (name: string) => boolean;
}

/** The operands of a product of heads with a number for each of them. */
interface HeadFactors {
  /** `[1, tokens, heads, size]`. */
  readonly wide: string;
  /** `[1, tokens, heads, 1]`, or a constant `[1, 1, heads, 1]`. */
  readonly narrow: string;
  readonly heads: number;
}

/**
 * Finds the operands of a product with a number for each head, as Mamba-2 scales its inputs: heads that are reshaped
 * from rows, and a column.
 */
export function findHeadFactors(index: GraphIndex, node: Node): HeadFactors | undefined {
  if (node.opType !== "Mul") return undefined;
  for (const [wide, narrow] of [node.inputs, node.inputs.toReversed()] as [string, string][]) {
    const rows = index.producers.get(wide);
    const shape = rows?.opType === "Reshape" ? readIntegers(index, rows.inputs[1]) : undefined;
    const [heads = 0, size = 0] = shape?.slice(2) ?? [];
    if (shape?.length !== 4 || heads < 2 || size < 2) continue;
    if (isHeadColumn(index, narrow, heads)) return { wide, narrow, heads };
  }
  return undefined;
}

/** Whether the last axes of a tensor are heads, and one element for each. */
function isHeadColumn(index: GraphIndex, name: string, heads: number): boolean {
  const node = index.producers.get(name);
  const numbers = readIntegers(index, node?.inputs[1]);
  if (node?.opType === "Unsqueeze") return numbers?.join() === "-1" || numbers?.join() === "3";
  const shape = node === undefined
    ? (index.constants.get(name) ?? index.inputs.get(name))?.shape
    : node.opType === "Reshape"
    ? numbers
    : undefined;
  return shape !== undefined && shape.length > 2 && shape.at(-1) === 1 && shape.at(-2) === heads;
}

/** Returns the rows of a tensor, which are copied if they are not contiguous. */
export function makeDense({ program, getRows }: RowSearch, name: string): Rows {
  const rows = getRows(name);
  const isDense = rows.offset === 0 && rows.stride === rows.width;
  return isDense ? rows : program.pointwise(`${name}/copy`, { a: rows });
}

/** Returns the rows of an output of a Split, which are a part of the rows that it divides. */
export function readPart(
  graph: GraphIndex,
  { whole, node, name }: { readonly whole: Rows; readonly node: Node; readonly name: string },
): Rows {
  const axis = readIntAttribute(node, "axis") ?? 0;
  const sizes = readSplitSizes(graph, node, whole.width);
  const isWhole = sizes?.reduce((sum, size) => sum + size, 0) === whole.width;
  const isEven = node.inputs.length === 1 && readIntsAttribute(node, "split") === undefined;
  // A split of heads into equal parts would be taken for a split of the row.
  const isOfHeads = isEven && graph.producers.get(node.inputs[0]!)?.opType === "Reshape";
  if (isOfHeads || (sizes !== undefined && !isWhole)) {
    throw new Refusal(`Its ${describeNode(node)} takes a part of each head.`);
  }
  if (sizes === undefined || (axis !== -1 && axis !== 2 && axis !== 3)) {
    throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
  }
  const index = node.outputs.indexOf(name);
  const before = sizes.slice(0, index).reduce((sum, size) => sum + size, 0);
  return { ...whole, offset: whole.offset + before, width: sizes[index]! };
}

/**
 * Returns the rows that a Gather selects: the wanted rows of the step, or rows of a table.
 *
 * @param options.allRows whether every token of the step is a wanted row.
 */
export function takeRows(
  search: RowSearch,
  { name, node, segment, allRows }: {
    readonly name: string;
    readonly node: Node;
    readonly segment: Segment;
    readonly allRows: boolean;
  },
): Rows {
  const { index, program, getRows } = search;
  const [table, numbers] = node.inputs as [string, string];
  const constant = index.constants.get(table);
  // `[tokens, width]`, possibly with a batch axis of one before it.
  const isWanted = numbers === ROWS.name && [0, 1].includes(readIntAttribute(node, "axis") ?? 0);
  if (isWanted && allRows) return getRows(table);
  const port = segment.inputs.find((input) => input.name === numbers);
  const isLookup = constant?.shape.length === 2 && !readIntAttribute(node, "axis") &&
    port?.dtype === "int64";
  if (!isWanted && !isLookup) throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
  if (constant) {
    return program.takeRows(name, {
      table: constant,
      numbers,
      width: constant.shape[1]!,
      elem: findElem(constant),
    });
  }
  const { tensor, width, elem } = makeDense(search, table);
  return program.takeRows(name, { table: tensor, numbers, width, elem });
}

/**
 * The data type that a segment computes in: that of its first weights, or of its first output if it has no weights.
 *
 * @throws {Refusal} when one of these has another type than f32 or f16.
 */
export function findDtype(index: GraphIndex, { outputs, model }: Segment): "float32" | "float16" {
  const operands = model.graph.nodes.flatMap(({ opType, inputs }) =>
    opType === "MatMulNBits" ? inputs[2]! : ["MatMul", "Gemm"].includes(opType) ? inputs[1]! : []
  );
  const found = operands.flatMap((name) =>
    (index.constants.get(name) ?? findTransposed(index, name))?.dtype ?? []
  );
  const dtypes = new Set(found.length > 0 ? found : outputs.map((output) => output.dtype));
  const others = [...dtypes].filter((each) => each !== "float32" && each !== "float16");
  const [dtype] = dtypes;
  if (others.length === 0 && (dtype === "float32" || dtype === "float16")) return dtype;
  throw new Refusal(`It computes in ${[...dtypes].join(" and ")}.`);
}

/** The rows of a segment's input. @throws {Refusal} when its data type is not a float. */
export function findPortRows({ name, dtype, shape }: TensorPort): Rows {
  if (dtype !== "float32" && dtype !== "float16") {
    throw new Refusal(`It computes with "${name}", which is ${dtype}.`);
  }
  const width = countElements(shape.filter((size) => typeof size === "number"));
  return { tensor: name, stride: width, offset: 0, width, elem: toElem(dtype) };
}

/** Options of {@linkcode simplifyToRows}. */
interface RowGraphOptions {
  /** Data type of everything that is computed without a cast. */
  readonly dtype: TensorType;
  readonly inputs: readonly TensorPort[];
  /** Tensors whose names must stay. */
  readonly wanted: ReadonlySet<string>;
}

/**
 * Removes reshapes, casts to the same type, and the nodes that compute shapes: other nodes read the original tensor
 * instead. Reshapes that change which elements belong to a token stay.
 */
export function simplifyToRows(graph: Graph, { dtype, inputs, wanted }: RowGraphOptions): Graph {
  const renamed = new Map<string, string>();
  const producers = new Map<string, Node>();
  const types = new Map<string, TensorType>();
  for (const each of [...inputs, ...graph.initializers]) types.set(each.name, each.dtype);
  const inferType = (node: Node): TensorType => {
    if (node.opType === "Cast") return toDtype(readIntAttribute(node, "to") ?? 0);
    const first = types.get(node.inputs[0] ?? "");
    return first === "float16" || first === "float32" ? first : dtype;
  };
  const joined = new Set(
    graph.nodes.flatMap(({ opType, inputs }) => opType === "Concat" ? inputs : []),
  );
  const divided = new Set(
    graph.nodes.flatMap(({ opType, inputs }) => opType === "Split" ? inputs[0]! : []),
  );
  const shapes = new Map(graph.initializers.map(({ name, shape }) => [name, shape]));
  const index = new GraphIndex(graph);
  const byHead = new Set(graph.nodes.flatMap((node) => {
    const found = findHeadFactors(index, node);
    return found ? [found.wide, found.narrow] : [];
  }));
  const isSame = (node: Node, input: string): boolean => {
    if (node.opType === "Cast") return types.get(input) === types.get(node.outputs[0]!);
    if (byHead.has(node.outputs[0]!)) return false;
    // If two tensors are joined on a new axis, their elements alternate.
    if (node.opType === "Unsqueeze" && joined.has(node.outputs[0]!)) return false;
    // A split of heads takes a part of each head, rather than of the row.
    const rank = node.opType === "Reshape" ? shapes.get(node.inputs[1]!)?.[0] : undefined;
    if (rank !== undefined && rank > 3 && divided.has(node.outputs[0]!)) return false;
    // A reshape right after a transposition may join heads of different tokens.
    const isJoin = node.opType === "Reshape" || node.opType === "Flatten";
    return isReshape(node) && !(isJoin && producers.get(input)?.opType === "Transpose");
  };
  /** The tensor in f16 that a tensor in f32 was cast from. */
  const findHalf = (name: string): string | undefined => {
    const node = producers.get(name);
    if (types.get(name) !== "float32" || node?.opType !== "Cast") return undefined;
    const [source] = node.inputs as [string];
    return types.get(source) === "float16" ? source : findHalf(source);
  };
  const nodes = graph.nodes.flatMap((node) => {
    const read = { ...node, inputs: node.inputs.map((name) => renamed.get(name) ?? name) };
    const [input] = read.inputs;
    const [output] = read.outputs;
    const half = read.opType === "Cast" ? findHalf(input!) : undefined;
    for (const name of read.outputs) {
      producers.set(name, read);
      types.set(name, inferType(read));
    }
    if (half !== undefined && types.get(output!) === "float16") {
      renamed.set(output!, half);
      return wanted.has(output!) ? [makeNode("Identity", [half], [output!])] : [];
    }
    if (input === undefined || !isSame(read, input)) return [read];
    renamed.set(output!, input);
    return wanted.has(output!) ? [makeNode("Identity", [input], [output!])] : [];
  });
  return { ...graph, nodes: findLiveNodes(nodes, wanted) };
}

const OPERATORS = new Set(["Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"]);

/** Whether a node only changes the shape of its input. */
export function isReshape({ opType }: Node): boolean {
  return OPERATORS.has(opType);
}

/** Follows a tensor back through reshapes. */
export function findOriginal(index: GraphIndex, name: string): string {
  return followBack(index, name, OPERATORS);
}

/** `residual + norm`, where the norm is a root mean square, and the name of the sum. */
interface FoundSum {
  readonly name: string;
  readonly norm: FoundNorm;
  readonly residual: string;
}

/**
 * Maximum number of outputs of a product that computes its input. Each group of outputs computes the sum again, which
 * for a vocabulary takes longer than another dispatch.
 */
const MOST_OUTPUTS = 2 ** 15;

/** The name for the sum of the two tensors that a norm reads. */
export function nameSum(node: Node): string {
  return node.outputs[3] || `${node.outputs[0]}/sum`;
}

/**
 * Finds the sum that is the input of a product, or of the norm before it, if the product's dispatch can compute the
 * sum.
 *
 * @param product.isFree tells whether only the given node reads a tensor, and it has not been computed yet.
 */
export function findSum(
  index: GraphIndex,
  { plan, norm, isFree }: {
    readonly plan: ProductPlan;
    readonly norm: FoundNorm | undefined;
    readonly isFree: (name: string, reader: Node) => boolean;
  },
): FoundSum | undefined {
  const { matrix: { k, outputs }, residual: added } = plan;
  if (added !== undefined || outputs > MOST_OUTPUTS) return undefined;
  const isSkip = norm?.inputs.length === 2;
  const input = findOriginal(index, norm?.inputs[0] ?? plan.input);
  const node = isSkip ? norm.node : index.producers.get(input);
  if (node === undefined || (!isSkip && node.opType !== "Add")) return undefined;
  if (readSkipBias(index, node) !== undefined) return undefined;
  const [left, right] = node.inputs as [string, string];
  for (const [normed, residual] of [[left, right], [right, left]] as const) {
    const own = isFree(normed, node) ? findNorm(index, normed) : undefined;
    const isTaken = own?.params.kind === "rms" && own.inputs.length === 1 &&
      own.gamma.shape[0] === k;
    if (!isTaken || index.constants.has(residual)) continue;
    return { name: isSkip ? nameSum(node) : input, norm: own, residual };
  }
  return undefined;
}
