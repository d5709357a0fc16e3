/**
 * Expands weights quantised in blocks, for onnxruntime-web on the CPU: its MatMulNBits unpacks the weights at every run,
 * and it has no GatherBlockQuantized.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (MatMulNBits, GatherBlockQuantized)
 * @module
 */
import type { StoredTensor } from "../file/stored_tensor.ts";
import {
  intAttribute,
  makeNode,
  type ModelProto,
  type Node,
  type Tensor,
  withGraph,
} from "../file/proto.ts";

/** Above this many expanded bytes the model stays packed: memory then matters more than speed. */
const MAX_EXPANDED_BYTES = 2 ** 30;

/** A matrix in blocks of 4-bit values along its rows, two to a byte, the lower half first. */
interface PackedMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly blockSize: number;
  /** u8, `blocks * blockSize / 2` bytes a row; a row of a table may end with its last whole byte. */
  readonly values: Tensor;
  /** f32 or f16 `[rows, blocks]`. */
  readonly scales: Tensor;
  /** u8, two 4-bit values to a byte, each row padded to whole bytes; 8 everywhere if absent. */
  readonly zeroPoints: Tensor | undefined;
}

/**
 * Replaces 4-bit MatMulNBits with MatMul, and 4-bit GatherBlockQuantized with Gather, with weights computed when each
 * segment is loaded. The result is the same up to the order of sums.
 *
 * @returns the model itself when there is nothing to expand, or more than {@linkcode MAX_EXPANDED_BYTES}.
 */
export function expandQuantized(model: ModelProto): ModelProto {
  const { graph } = model;
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const expanded = new Map<string, Tensor>();
  const nodes = graph.nodes.map((node) => {
    const weights = expandWeights(node, constants);
    if (weights === undefined) return node;
    expanded.set(weights.name, weights);
    const { name, outputs, inputs: [first, indices] } = node;
    return node.opType === "MatMulNBits"
      ? makeNode("MatMul", [first!, weights.name], outputs, { name })
      : makeNode("Gather", [weights.name, indices!], outputs, { name, attributes: { axis: 0 } });
  });
  // ONNX Runtime computes in f32 on the CPU, whatever the type.
  const bytes = [...expanded.values()].reduce(
    (sum, { shape }) => sum + 4 * shape[0]! * shape[1]!,
    0,
  );
  if (expanded.size === 0 || bytes > MAX_EXPANDED_BYTES) return model;
  const unpacked = new Set(
    [...expanded.values()].flatMap(({ data }) =>
      data.kind === "computed" ? data.sources.map(({ name }) => name) : []
    ),
  );
  const used = new Set(nodes.flatMap(({ inputs }) => inputs));
  const left = graph.initializers.filter(({ name }) => !unpacked.has(name) || used.has(name));
  return withGraph(model, { nodes, initializers: [...left, ...expanded.values()] });
}

/** @returns `undefined` for what is not expanded: other operators, widths other than 4 bits, reordered rows, a bias. */
function expandWeights(node: Node, constants: ReadonlyMap<string, Tensor>): Tensor | undefined {
  const tensors = node.inputs.map((name) => constants.get(name));
  const blockSize = intAttribute(node, "block_size");
  if ((intAttribute(node, "bits") ?? 4) !== 4 || blockSize === undefined) return undefined;
  if (node.opType === "MatMulNBits" && node.inputs.slice(4).every((name) => name === "")) {
    const parts = readParts(tensors[1], tensors[2], tensors[3]);
    const [rows, columns] = [intAttribute(node, "N")!, intAttribute(node, "K")!];
    return parts && expandMatrix({ rows, columns, blockSize, ...parts }, "columns");
  }
  if (node.opType === "GatherBlockQuantized") {
    const parts = readParts(tensors[0], tensors[2], tensors[3]);
    const isByRow = (intAttribute(node, "gather_axis") ?? 0) === 0 &&
      (intAttribute(node, "quantize_axis") ?? 1) === 1;
    if (!isByRow || parts?.values.shape.length !== 2) return undefined;
    const [rows, halfColumns] = parts.values.shape as [number, number];
    return expandMatrix({ rows, columns: 2 * halfColumns, blockSize, ...parts }, "rows");
  }
  return undefined;
}

/** A tensor that can be unpacked: bytes, scales in a type that weights may have, zero points packed like the values. */
function readParts(
  values: Tensor | undefined,
  scales: Tensor | undefined,
  zeroPoints: Tensor | undefined,
): Pick<PackedMatrix, "values" | "scales" | "zeroPoints"> | undefined {
  if (values?.dtype !== "uint8") return undefined;
  if (scales?.dtype !== "float32" && scales?.dtype !== "float16") return undefined;
  if (zeroPoints !== undefined && zeroPoints.dtype !== "uint8") return undefined;
  return { values, scales, zeroPoints };
}

/** The matrix in its scales' type: `[rows, columns]` as Gather takes it, or `[columns, rows]` as MatMul does. */
function expandMatrix(matrix: PackedMatrix, first: "rows" | "columns"): Tensor {
  const { rows, columns, values, scales, zeroPoints } = matrix;
  const sources: StoredTensor[] = [values, scales, ...(zeroPoints ? [zeroPoints] : [])];
  const strides = first === "rows" ? { row: columns, column: 1 } : { row: 1, column: rows };
  return {
    name: `${values.name}/expanded by ${first}`,
    dtype: scales.dtype,
    shape: first === "rows" ? [rows, columns] : [columns, rows],
    data: {
      kind: "computed",
      sources,
      compute: (bytes, into) => unpack(matrix, strides, bytes, into),
      length: (scales.dtype === "float16" ? 2 : 4) * columns * rows,
    },
    rest: [],
  };
}

function unpack(
  matrix: PackedMatrix,
  strides: { readonly row: number; readonly column: number },
  bytes: readonly Uint8Array[],
  into: Uint8Array,
): void {
  const { rows, columns, blockSize } = matrix;
  const [values, scaleBytes, zeroPoints] = bytes as [
    Uint8Array,
    Uint8Array,
    Uint8Array | undefined,
  ];
  const Numbers = matrix.scales.dtype === "float16" ? Float16Array : Float32Array;
  // A copy: constants inside a file begin at any address.
  const scales = Float32Array.from(new Numbers(scaleBytes.slice().buffer));
  const weights = new Numbers(into.buffer as ArrayBuffer, into.byteOffset, rows * columns);
  const blocks = Math.ceil(columns / blockSize);
  const bytesPerRow = values.length / rows;
  const zeroBytesPerRow = Math.ceil(blocks / 2);
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blocks; block++) {
      const scale = scales[row * blocks + block]!;
      const zeroByte = zeroPoints?.[row * zeroBytesPerRow + (block >> 1)];
      const zero = zeroByte === undefined ? 8 : (zeroByte >> (4 * (block & 1))) & 15;
      const start = block * blockSize;
      const end = Math.min(start + blockSize, columns);
      const from = row * bytesPerRow + start / 2;
      let to = row * strides.row + start * strides.column;
      for (let n = 0; n < end - start; n++, to += strides.column) {
        const value = (values[from + (n >> 1)]! >> (4 * (n & 1))) & 15;
        weights[to] = (value - zero) * scale;
      }
    }
  }
}
