/**
 * Compiles nodes that no matrix product includes: elementwise products, parts of rows (Split), and rows that are selected
 * from others (Gather).
 *
 * @module
 */
import { describeNode, eitherInput, type GraphIndex, readVector } from "../graph/graph_index.ts";
import { intAttribute, intsAttribute, type Node } from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";
import { findActivation } from "./activations.ts";
import { readMatrix, transposedConstant } from "./matrices.ts";
import { readScale, splitSizes } from "./product_plan.ts";
import { findElem, type ProgramBuilder, type Rows } from "./program_builder.ts";
import { ROWS } from "../graph/cut/segment_model.ts";
import type { Segment, TensorPort } from "../graph/graph_cut.ts";
import { countElements } from "../graph/file/dtype.ts";
import { toElem } from "../gpu/kernel.ts";

/** A segment that is being compiled. */
export interface RowSearch {
  readonly index: GraphIndex;
  readonly program: ProgramBuilder;
  /** Returns the rows of a tensor, which are computed if they have not been yet. */
  readonly getRows: (name: string) => Rows;
  readonly isKnown: (name: string) => boolean;
}

/**
 * Compiles a tensor times a constant factor, a constant vector, an activation, another tensor or one number per row, in
 * one dispatch.
 */
export function compileMultiply(
  { index, program, getRows, isKnown }: RowSearch,
  name: string,
  node: Node,
): Rows {
  const scaled = readScale(index, node);
  if (scaled !== undefined) {
    const found = isKnown(scaled.input) ? undefined : findActivation(index, scaled.input);
    const isAlone = index.onlyConsumer(scaled.input) === node;
    const { activation, input } = found !== undefined && isAlone
      ? found
      : { activation: "none", input: scaled.input } as const;
    return program.pointwise(name, { a: getRows(input), activation, scale: scaled.scale });
  }
  if (node.opType === "Div") throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
  const vector = eitherInput(node, (input) => readVector(index, input));
  if (vector !== undefined) {
    return program.pointwise(name, { a: getRows(vector.other), multiply: vector.found });
  }
  const column = eitherInput(node, (input) => isColumn(index, input) || undefined);
  if (column !== undefined && !isColumn(index, column.other)) {
    const [wide, narrow] = [column.other, node.inputs.find((input) => input !== column.other)!];
    return program.pointwise(name, { a: getRows(wide), multiply: getRows(narrow) });
  }
  for (const [left, right] of [node.inputs, node.inputs.toReversed()] as [string, string][]) {
    const found = findActivation(index, left);
    if (found === undefined || isKnown(left)) continue;
    const { activation } = found;
    return program.pointwise(name, {
      a: getRows(found.input),
      activation,
      multiply: getRows(right),
    });
  }
  const [left, right] = node.inputs as [string, string];
  return program.pointwise(name, { a: getRows(left), multiply: getRows(right) });
}

/** Whether a tensor is the product of a matrix with one output, possibly activated. */
function isColumn(index: GraphIndex, name: string): boolean {
  const product = index.producers.get(findActivation(index, name)?.input ?? name);
  return product !== undefined && readMatrix(index, product)?.outputs === 1;
}

/** Returns a tensor's rows, contiguous. */
export function denseRows({ program, getRows }: RowSearch, name: string): Rows {
  const rows = getRows(name);
  const isDense = rows.offset === 0 && rows.stride === rows.width;
  return isDense ? rows : program.copy(`${name}/copy`, rows, rows.elem);
}

/** Returns the part `name` of rows that a Split divides. */
export function readPart(
  graph: GraphIndex,
  { whole, node, name }: { readonly whole: Rows; readonly node: Node; readonly name: string },
): Rows {
  const axis = intAttribute(node, "axis") ?? 0;
  const sizes = splitSizes(graph, node, whole.width);
  const isWhole = sizes?.reduce((sum, size) => sum + size, 0) === whole.width;
  const isEven = node.inputs.length === 1 && intsAttribute(node, "split") === undefined;
  // Heads that are divided evenly would look like a row that is.
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
 * Returns the rows that a Gather selects: those that the step wants, or those of a table.
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
  const isWanted = numbers === ROWS.name && [0, 1].includes(intAttribute(node, "axis") ?? 0);
  if (isWanted && allRows) return getRows(table);
  const port = segment.inputs.find((input) => input.name === numbers);
  const isLookup = constant?.shape.length === 2 && !intAttribute(node, "axis") &&
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
  const { tensor, width, elem } = denseRows(search, table);
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
    (index.constants.get(name) ?? transposedConstant(index, name))?.dtype ?? []
  );
  const dtypes = new Set(found.length > 0 ? found : outputs.map((output) => output.dtype));
  const others = [...dtypes].filter((each) => each !== "float32" && each !== "float16");
  const [dtype] = dtypes;
  if (others.length === 0 && (dtype === "float32" || dtype === "float16")) return dtype;
  throw new Refusal(`It computes in ${[...dtypes].join(" and ")}.`);
}

/** The rows of a tensor that enters a segment. @throws {Refusal} when its data type is not a float. */
export function findPortRows({ name, dtype, shape }: TensorPort): Rows {
  if (dtype !== "float32" && dtype !== "float16") {
    throw new Refusal(`It computes with "${name}", which is ${dtype}.`);
  }
  const width = countElements(shape.filter((size) => typeof size === "number"));
  return { tensor: name, stride: width, offset: 0, width, elem: toElem(dtype) };
}
