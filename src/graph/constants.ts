/**
 * Constants of a graph, as patterns look for them.
 *
 * @module
 */
import { countElements } from "./file/dtype.ts";
import { valueOfTensor } from "./evaluate/value.ts";
import type { GraphIndex } from "./graph_index.ts";
import type { Node, Tensor } from "./file/proto.ts";

/** The value of a constant of one element. */
export function readScalar(index: GraphIndex, name: string | undefined): number | undefined {
  const tensor = index.constants.get(name ?? "");
  if (tensor === undefined || countElements(tensor.shape) !== 1) return undefined;
  return tensor.data.kind === "memory" ? valueOfTensor(tensor).data?.[0] : undefined;
}

/** The values of a constant of integers. */
export function readIntegers(index: GraphIndex, name: string | undefined): number[] | undefined {
  const tensor = index.constants.get(name ?? "");
  if (tensor?.dtype !== "int64" || tensor.data.kind !== "memory") return undefined;
  return [...valueOfTensor(tensor).data ?? []];
}

/** A constant with `length` elements along its last axis and no others. */
export function readVector(
  index: GraphIndex,
  name: string | undefined,
  length?: number,
): Tensor | undefined {
  const tensor = index.constants.get(name ?? "");
  const size = tensor?.shape.at(-1);
  if (tensor === undefined || size === undefined || countElements(tensor.shape) !== size) {
    return undefined;
  }
  return length === undefined || size === length ? tensor : undefined;
}

/** Finds which of a node's two inputs passes a test, and names the other. */
export function eitherInput<T>(
  { inputs }: Node,
  test: (name: string) => T | undefined,
): { readonly found: T; readonly other: string } | undefined {
  const [left, right] = inputs as [string, string];
  const first = test(left);
  if (first !== undefined) return { found: first, other: right };
  const second = test(right);
  return second === undefined ? undefined : { found: second, other: left };
}
