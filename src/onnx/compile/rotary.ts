/**
 * Rotary position embeddings of whole heads, as one operator or spelled out.
 *
 * @module
 */
import type { GraphIndex } from "../graph_index.ts";
import { intAttribute, type Node } from "../file/proto.ts";
import { integersOf } from "./constants.ts";

/** A rotation of heads: element `i` turns with `i + headDim / 2`. */
export interface FoundRotation {
  readonly input: string;
  /** Tensors of cosines and sines of each token. */
  readonly cos: string;
  readonly sin: string;
}

/** The rotation that makes a tensor, if one does. */
export function findRotation(
  index: GraphIndex,
  name: string,
  headDim: number,
): FoundRotation | undefined {
  const node = index.producers.get(name);
  if (node?.opType === "RotaryEmbedding") return singleOperator(node);
  if (node?.opType !== "Add") return undefined;
  const [left, right] = node.inputs.map((input) => index.producers.get(input));
  for (const [straight, turned] of [[left, right], [right, left]]) {
    if (straight?.opType !== "Mul" || turned?.opType !== "Mul") continue;
    for (const [half, sin] of [turned.inputs, turned.inputs.toReversed()] as [string, string][]) {
      const input = turnedHalves(index, half, headDim);
      const cos = straight.inputs.find((other) => other !== input);
      if (input !== undefined && cos !== undefined && straight.inputs.includes(input)) {
        return { input, cos, sin };
      }
    }
  }
  return undefined;
}

/** ONNX's own, with cosines and sines of each token. */
function singleOperator(node: Node): FoundRotation | undefined {
  const [input, cos, sin, positions = ""] = node.inputs as [string, string, string, string?];
  const isWhole = !intAttribute(node, "rotary_embedding_dim") && !intAttribute(node, "interleaved");
  return node.domain === "" && positions === "" && isWhole ? { input, cos, sin } : undefined;
}

/** `x` of `concat(-x[headDim / 2 ..], x[.. headDim / 2])`. */
function turnedHalves(index: GraphIndex, name: string, headDim: number): string | undefined {
  const node = index.producers.get(name);
  const axis = node && intAttribute(node, "axis");
  if (node?.opType !== "Concat" || node.inputs.length !== 2 || (axis !== -1 && axis !== 3)) {
    return undefined;
  }
  const [negated, first] = node.inputs.map((input) => index.producers.get(input));
  if (negated?.opType !== "Neg") return undefined;
  const second = index.producers.get(negated.inputs[0]!);
  if (first?.opType === "Split" && first === second && first.outputs.length === 2) {
    const isInOrder = first.outputs[0] === node.inputs[1];
    const sizes = integersOf(index, first.inputs[1]) ?? [headDim / 2, headDim / 2];
    return isInOrder && sizes[0] === sizes[1] ? first.inputs[0] : undefined;
  }
  const isFirst = isSlice(index, first, [0, headDim / 2]);
  const isSecond = isSlice(index, second, [headDim / 2, headDim]);
  return isFirst && isSecond && first!.inputs[0] === second!.inputs[0]
    ? first!.inputs[0]
    : undefined;
}

/** Whether a node takes these elements of the last of four axes. */
function isSlice(index: GraphIndex, node: Node | undefined, [from, to]: [number, number]): boolean {
  if (node?.opType !== "Slice") return false;
  const [starts, ends, axes, steps = [1]] = node.inputs.slice(1).map((name) =>
    integersOf(index, name)
  );
  const isLast = axes?.length === 1 && (axes[0] === -1 || axes[0] === 3);
  const end = ends?.[0] ?? 0;
  return isLast && starts?.[0] === from && (end === to || end > 2 * to) && steps[0] === 1;
}
