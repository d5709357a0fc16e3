/**
 * Nodes that do not change the order of a token's elements.
 *
 * @module
 */
import type { GraphIndex } from "../graph/graph_index.ts";
import type { Node } from "../graph/file/proto.ts";

const OPERATORS = new Set(["Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten"]);

/** Whether a node only changes the shape of its input. */
export function isReshape({ opType }: Node): boolean {
  return OPERATORS.has(opType);
}

/** The tensor that another is only a reshape of. */
export function findOriginal(index: GraphIndex, name: string): string {
  const node = index.producers.get(name);
  return node && isReshape(node) ? findOriginal(index, node.inputs[0]!) : name;
}
