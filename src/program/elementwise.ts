/**
 * Products and bounds of rows, element by element.
 *
 * @module
 */
import { findActivation } from "./activations.ts";
import { readMatrix, readScale } from "./product_plan.ts";
import type { Rows } from "./program_builder.ts";
import { findHeadFactors, findOriginal, type RowSearch } from "./row_nodes.ts";
import {
  describeNode,
  eitherInput,
  type GraphIndex,
  readScalar,
  readVector,
} from "../graph/graph_index.ts";
import { type Node, readFloatAttribute, type Tensor } from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";

/**
 * Compiles a tensor times a constant factor, a constant vector, an activation, another tensor, or one number per row or
 * head, in one dispatch.
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
  const heads = findHeadFactors(index, node);
  if (heads !== undefined) {
    const constant = index.constants.get(findOriginal(index, heads.narrow));
    const multiply = constant && { ...constant, shape: [heads.heads] };
    return program.pointwise(name, {
      ...{ a: getRows(heads.wide), byHead: true },
      multiply: multiply ?? getRows(heads.narrow),
    });
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

/** Compiles a `Clip`, and an activation before it if there is one, to one dispatch for each bound. */
export function compileClip(
  { index, program, getRows, isKnown }: RowSearch,
  name: string,
  node: Node,
): Rows {
  const bounds = (["max", "min"] as const).flatMap((kind, i) => {
    const bound = readBound(index, node, i);
    return Number.isFinite(bound) ? [{ kind, bound }] : [];
  });
  const [input] = node.inputs as [string];
  const found = isKnown(input) ? undefined : findActivation(index, input);
  const isAlone = found !== undefined && index.onlyConsumer(input) === node;
  let rows = getRows(isAlone ? found.input : input);
  let activation = isAlone ? found.activation : "none";
  for (const [i, { kind, bound }] of bounds.entries()) {
    const { width, elem } = rows;
    const data = (elem === "f32" ? new Float32Array(width) : new Float16Array(width)).fill(bound);
    const vector: Tensor = {
      ...{ name: `${name}/${kind}`, shape: [width] },
      dtype: elem === "f32" ? "float32" : "float16",
      data: { kind: "memory", bytes: new Uint8Array(data.buffer) },
      rest: [],
    };
    const result = i === bounds.length - 1 ? name : `${name}/bounded`;
    rows = program.pointwise(result, { a: rows, activation, [kind]: vector });
    activation = "none";
  }
  return activation === "none" ? rows : program.pointwise(name, { a: rows, activation });
}

/** A bound of a `Clip`: the lower or the upper one. @throws {Refusal} when it is not a constant. */
function readBound(index: GraphIndex, node: Node, position: number): number {
  const given = node.inputs[position + 1];
  const bound = given
    ? readScalar(index, given)
    : readFloatAttribute(node, position === 0 ? "min" : "max") ?? Infinity;
  if (bound === undefined) throw new Refusal(`It has no kernel for ${describeNode(node)}.`);
  return bound;
}

/** Whether a tensor is the product of a matrix with one output, possibly activated. */
function isColumn(index: GraphIndex, name: string): boolean {
  const product = index.producers.get(findActivation(index, name)?.input ?? name);
  return product !== undefined && readMatrix(index, product)?.outputs === 1;
}
