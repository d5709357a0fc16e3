/**
 * Compiles elementwise products that no matrix product includes.
 *
 * @module
 */
import { describeNode, type GraphIndex } from "../graph/graph_index.ts";
import type { Node } from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";
import { findActivation } from "./activations.ts";
import { readMatrix } from "./matrices.ts";
import { eitherInput, readVector } from "../graph/constants.ts";
import { readScale } from "./product_plan.ts";
import type { ProgramBuilder, Rows } from "./program_builder.ts";

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
