/**
 * Replaces sums of several tensors by additions of two. ONNX Runtime has no WebGPU kernel for `Sum`: each would be
 * computed on the CPU, with all its inputs read back from the GPU first.
 *
 * @module
 */
import { getOpset, makeNode, type ModelProto, type Node, withGraph } from "../file/proto.ts";

/** From this opset on, `Sum` broadcasts its inputs as `Add` does. */
const BROADCASTING = 8;

/** The model with every `Sum` replaced; it adds in the same order. */
export function sumsToAdditions(model: ModelProto): ModelProto {
  const isSum = ({ opType, domain }: Node) => opType === "Sum" && domain === "";
  if (getOpset(model) < BROADCASTING || !model.graph.nodes.some(isSum)) return model;
  const nodes = model.graph.nodes.flatMap((node) => isSum(node) ? toAdditions(node) : [node]);
  return withGraph(model, { nodes });
}

function toAdditions({ name, inputs, outputs: [output] }: Node): Node[] {
  const [first, ...others] = inputs;
  if (others.length === 0) return [makeNode("Identity", [first!], [output!], { name })];
  const partial = (i: number) => i === others.length - 1 ? output! : `${output}/sum_${i}`;
  return others.map((input, i) =>
    makeNode("Add", [i === 0 ? first! : partial(i - 1), input], [partial(i)], {
      name: `${name}/${i}`,
    })
  );
}
