/**
 * Replaces `Constant` nodes by constants of the graph.
 *
 * @module
 */
import {
  type Graph,
  int64Tensor,
  type Node,
  readFloatAttribute,
  readFloatsAttribute,
  readIntAttribute,
  readIntsAttribute,
  readTensorAttribute,
  type Tensor,
} from "./proto.ts";
import { decodeTensorMessage } from "./proto_codec.ts";

/** Turns `Constant` nodes into constants, to which several segments can refer. */
export function liftConstants(graph: Graph): Graph {
  const lifted: Tensor[] = [];
  const nodes = graph.nodes.filter((node) => {
    const constant = node.opType === "Constant" ? readConstant(node) : undefined;
    if (constant !== undefined) lifted.push(constant);
    return constant === undefined;
  });
  return { ...graph, nodes, initializers: [...graph.initializers, ...lifted] };
}

/** The value of a `Constant` node; `undefined` if it is neither a tensor nor numbers. */
function readConstant(node: Node): Tensor | undefined {
  const [name] = node.outputs as [string];
  const message = readTensorAttribute(node, "value");
  if (message) return { ...decodeTensorMessage(message), name };
  const [int, ints] = [readIntAttribute(node, "value_int"), readIntsAttribute(node, "value_ints")];
  if (int !== undefined) return int64Tensor(name, [], [int]);
  if (ints !== undefined) return int64Tensor(name, [ints.length], ints);
  const float = readFloatAttribute(node, "value_float");
  const bytes = float === undefined
    ? readFloatsAttribute(node, "value_floats")
    : new Uint8Array(Float32Array.of(float).buffer);
  if (bytes === undefined) return undefined;
  const shape = float === undefined ? [bytes.length / Float32Array.BYTES_PER_ELEMENT] : [];
  return { name, dtype: "float32", shape, data: { kind: "memory", bytes }, rest: [] };
}
