/**
 * Expands weights quantised in blocks to float32, for the CPU: ONNX Runtime's CPU provider in WebAssembly has no kernel
 * of its own for them and unpacks them at every run, and none at all for GatherBlockQuantized.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (MatMulNBits, GatherBlockQuantized)
 * @module
 */
import type { StoredTensor } from "./graph_cut.ts";
import { intAttribute, makeNode, type Model, type Node, type Tensor } from "./proto.ts";

/** Above this many expanded bytes the model stays packed: memory then matters more than speed. */
export const MAX_EXPANDED_BYTES = 2 ** 30;

/** A matrix in blocks of 4-bit values along its rows, two to a byte, the lower half first. */
interface PackedMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly blockSize: number;
  /** u8 `[rows, blocks, blockSize / 2]`. */
  readonly values: Tensor;
  /** f32 `[rows, blocks]`. */
  readonly scales: Tensor;
  /** u8, two 4-bit values to a byte, each row padded to whole bytes; 8 everywhere if absent. */
  readonly zeroPoints: Tensor | undefined;
}

/**
 * Replaces 4-bit MatMulNBits in float32 by MatMul with float32 weights, which are worked out as each segment is loaded.
 * The result is the same up to the order of sums.
 *
 * @returns the model itself when there is nothing to expand, or more than {@linkcode MAX_EXPANDED_BYTES}.
 */
export function expandQuantized(model: Model): Model {
  const { graph } = model;
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const expanded = new Map<string, Tensor>();
  const nodes = graph.nodes.map((node) => {
    const matrix = node.opType === "MatMulNBits" ? readMatrix(node, constants) : undefined;
    if (matrix === undefined) return node;
    const weights = expandMatrix(matrix);
    expanded.set(weights.name, weights);
    return makeNode("MatMul", [node.inputs[0]!, weights.name], node.outputs, { name: node.name });
  });
  const bytes = [...expanded.values()].reduce(
    (sum, { shape }) => sum + 4 * shape[0]! * shape[1]!,
    0,
  );
  if (expanded.size === 0 || bytes > MAX_EXPANDED_BYTES) return model;
  const initializers = [...graph.initializers, ...expanded.values()];
  return { ...model, graph: { ...graph, nodes, initializers } };
}

/** @returns `undefined` for what is not expanded: other widths than 4 bits, f16 scales, reordered rows, a bias. */
function readMatrix(node: Node, constants: ReadonlyMap<string, Tensor>): PackedMatrix | undefined {
  const [, values, scales, zeroPoints, groupIndex, bias] = node.inputs.map((name) =>
    constants.get(name)
  );
  const isPlain = (intAttribute(node, "bits") ?? 4) === 4 && values !== undefined &&
    scales?.dtype === "float32" && (zeroPoints === undefined || zeroPoints.dtype === "uint8") &&
    groupIndex === undefined && bias === undefined;
  if (!isPlain) return undefined;
  return {
    rows: intAttribute(node, "N")!,
    columns: intAttribute(node, "K")!,
    blockSize: intAttribute(node, "block_size")!,
    values,
    scales,
    zeroPoints,
  };
}

/** The matrix transposed, f32 `[columns, rows]`, as MatMul takes it. */
function expandMatrix(matrix: PackedMatrix): Tensor {
  const { rows, columns, values, scales, zeroPoints } = matrix;
  const sources: StoredTensor[] = [values, scales, ...(zeroPoints ? [zeroPoints] : [])];
  return {
    name: `${values.name}/expanded`,
    dtype: "float32",
    shape: [columns, rows],
    data: {
      kind: "computed",
      sources,
      compute: (bytes, into) => unpack(matrix, bytes, into),
      length: 4 * columns * rows,
    },
    rest: [],
  };
}

function unpack(matrix: PackedMatrix, bytes: readonly Uint8Array[], into: Uint8Array): void {
  const { rows, columns, blockSize } = matrix;
  const [values, scaleBytes, zeroPoints] = bytes as [
    Uint8Array,
    Uint8Array,
    Uint8Array | undefined,
  ];
  // Copies: constants inside a file begin at any address.
  const scales = new Float32Array(scaleBytes.slice().buffer);
  const weights = new Float32Array(into.buffer, into.byteOffset, rows * columns);
  const blocks = Math.ceil(columns / blockSize);
  const zeroBytesPerRow = Math.ceil(blocks / 2);
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blocks; block++) {
      const scale = scales[row * blocks + block]!;
      const zeroByte = zeroPoints?.[row * zeroBytesPerRow + (block >> 1)];
      const zero = zeroByte === undefined ? 8 : (zeroByte >> (4 * (block & 1))) & 15;
      const start = block * blockSize;
      const end = Math.min(start + blockSize, columns);
      const from = (row * blocks + block) * (blockSize / 2);
      for (let column = start; column < end; column++) {
        const byte = values[from + ((column - start) >> 1)]!;
        const value = (byte >> (4 * (column & 1))) & 15;
        weights[column * rows + row] = (value - zero) * scale;
      }
    }
  }
}
