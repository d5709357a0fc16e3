/**
 * The constant matrices in a graph's products, as the graph stores them.
 *
 * @module
 */
import { LEVEL_BITS, type MatrixFormat } from "../../kernels/matmul/matvec_params.ts";
import { type GraphIndex, readVector } from "../graph/graph_index.ts";
import { floatAttribute, intAttribute, type Node, type Tensor } from "../graph/file/proto.ts";
import { Refusal } from "../graph/refusal.ts";

/** A matrix, as a graph stores it. */
export interface Matrix {
  readonly format: MatrixFormat;
  readonly k: number;
  readonly outputs: number;
  readonly weights: Tensor;
  readonly scales?: Tensor | undefined;
  readonly zeroPoints?: Tensor | undefined;
}

/** Returns the matrix of a product with constant weights. */
export function readMatrix(index: GraphIndex, node: Node): Matrix | undefined {
  const { opType, inputs } = node;
  if (opType === "Gemm" && !isPlainGemm(index, node)) return undefined;
  const weights = index.constants.get(inputs[1] ?? "");
  if (opType === "MatMulNBits" && weights !== undefined) return readBlocks(index, node, weights);
  if (opType === "MatMul" && weights?.shape.length === 2) {
    const [k, outputs] = weights.shape as [number, number];
    return { format: { kind: "columns" }, k, outputs, weights };
  }
  const transposed = opType === "MatMul" ? transposedConstant(index, inputs[1]) : undefined;
  const isTransposed = intAttribute(node, "transB") === 1;
  const table = transposed ?? (opType === "Gemm" && isTransposed ? weights : undefined);
  if (table?.shape.length === 2) {
    const [outputs, k] = table.shape as [number, number];
    return { format: { kind: "rows" }, k, outputs, weights: table };
  }
  if (opType !== "Gemm" || weights === undefined) return undefined;
  const [k, outputs] = weights.shape as [number, number];
  return { format: { kind: "columns" }, k, outputs, weights };
}

/** Whether a `Gemm` is only a product and a bias, without scale factors. */
function isPlainGemm(index: GraphIndex, node: Node): boolean {
  const [alpha, beta] = ["alpha", "beta"].map((name) => floatAttribute(node, name) ?? 1);
  const { inputs: [, , bias = ""] } = node;
  return alpha === 1 && beta === 1 && !intAttribute(node, "transA") &&
    (bias === "" || readVector(index, bias) !== undefined);
}

/** Returns the constant whose transpose a tensor is. */
export function transposedConstant(
  index: GraphIndex,
  name: string | undefined,
): Tensor | undefined {
  const node = index.producers.get(name ?? "");
  return node?.opType === "Transpose" ? index.constants.get(node.inputs[0]!) : undefined;
}

function readBlocks(index: GraphIndex, node: Node, weights: Tensor): Matrix {
  const [k, outputs, blockSize] = ["K", "N", "block_size"].map((name) =>
    intAttribute(node, name)!
  ) as [number, number, number];
  const given = intAttribute(node, "bits") ?? 4;
  const bits = LEVEL_BITS.find((known) => known === given);
  if (bits === undefined) throw new Refusal(`Its product "${node.name}" has ${given} bits.`);
  const [, , scales, zeroPoints = "", groups = "", bias = ""] = node.inputs;
  if (groups !== "" || (bias !== "" && readVector(index, bias, outputs) === undefined)) {
    throw new Refusal(`Its product "${node.name}" has inputs that the kernel does not support.`);
  }
  const zeros = index.constants.get(zeroPoints);
  if (zeros !== undefined && zeros.dtype !== "uint8") {
    throw new Refusal(`The zero points of its product "${node.name}" are ${zeros.dtype}.`);
  }
  return {
    format: {
      ...{ kind: "nbits", bits, blockSize, hasZeroPoints: zeros !== undefined },
      ...(intAttribute(node, "accuracy_level") === 4 ? { allowsInt8: true } : {}),
    },
    k,
    outputs,
    weights,
    scales: index.constants.get(scales!),
    zeroPoints: zeros,
  };
}
