/**
 * Parts of rows (Split), and rows that are selected from others (Gather).
 *
 * @module
 */
import { ROWS } from "../graph/cut/segment_model.ts";
import { intAttribute, intsAttribute, type Node } from "../graph/file/proto.ts";
import type { Segment } from "../graph/graph_cut.ts";
import { describeNode, type GraphIndex } from "../graph/graph_index.ts";
import { Refusal } from "../graph/refusal.ts";
import type { RowSearch } from "./multiply.ts";
import { splitSizes } from "./product_plan.ts";
import { elemOfTensor, type Rows } from "./program_builder.ts";

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
      elem: elemOfTensor(constant),
    });
  }
  const { tensor, width, elem } = denseRows(search, table);
  return program.takeRows(name, { table: tensor, numbers, width, elem });
}
