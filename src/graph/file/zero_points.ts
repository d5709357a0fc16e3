/**
 * Packs zero points of `MatMulNBits` that are stored as floats but are integers, as converters of GPTQ write them. All
 * kernels, including those of ONNX Runtime, are faster with packed zero points.
 *
 * @module
 */
import type { ModelFiles } from "./external_data.ts";
import { type Graph, type Node, readIntAttribute, type Tensor } from "./proto.ts";
import { readFloats } from "./stored_range.ts";

/** Index of the zero points among the inputs of `MatMulNBits`. */
const ZERO_POINTS = 3;

/**
 * Packs the zero points of each `MatMulNBits`. If one of a node's zero points is not an integer in the range of the
 * levels, all of them stay floats.
 */
export async function packZeroPoints(graph: Graph, files: ModelFiles): Promise<Graph> {
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const packed: Tensor[] = [];
  const replaced = new Set<string>();
  const nodes: Node[] = [];
  for (const node of graph.nodes) {
    const zeros = node.opType === "MatMulNBits" && constants.get(node.inputs[ZERO_POINTS] ?? "");
    const tensor = zeros ? await pack(node, zeros, files) : undefined;
    if (tensor === undefined) {
      nodes.push(node);
      continue;
    }
    packed.push(tensor);
    replaced.add(node.inputs[ZERO_POINTS]!);
    nodes.push({ ...node, inputs: node.inputs.with(ZERO_POINTS, tensor.name) });
  }
  if (packed.length === 0) return graph;
  const used = new Set(nodes.flatMap(({ inputs }) => inputs));
  const kept = graph.initializers.filter(({ name }) => used.has(name) || !replaced.has(name));
  return { ...graph, nodes, initializers: [...kept, ...packed] };
}

async function pack(node: Node, zeros: Tensor, files: ModelFiles): Promise<Tensor | undefined> {
  if (zeros.dtype !== "float32" && zeros.dtype !== "float16") return undefined;
  const bits = readIntAttribute(node, "bits") ?? 4;
  const rows = readIntAttribute(node, "N")!;
  const levels = await readFloats(zeros, files);
  const blocks = levels.length / rows;
  if (!levels.every((level) => Number.isInteger(level) && level >= 0 && level < 2 ** bits)) {
    return undefined;
  }
  const rowBytes = Math.ceil(blocks * bits / 8);
  const bytes = new Uint8Array(rows * rowBytes);
  for (const [i, level] of levels.entries()) {
    const bit = i % blocks * bits;
    bytes[Math.floor(i / blocks) * rowBytes + (bit >> 3)]! |= level << (bit & 7);
  }
  const name = `${node.outputs[0]}/packed_zero_points`;
  return { name, dtype: "uint8", shape: [bytes.length], rest: [], data: { kind: "memory", bytes } };
}
