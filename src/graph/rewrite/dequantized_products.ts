/**
 * Replaces a `MatMul` and the `DequantizeLinear` of its weights by `MatMulNBits`. The weights may be transposed. Either
 * they are quantised in blocks along the inputs of the product, which ONNX Runtime fuses too, with accuracy level 4. Or
 * they have 8 bits, and one scale for all weights or for each output: exports in int8 store vocabularies that are tied
 * to embeddings in this layout.
 *
 * @module
 */
import { countElementBytes, countElements } from "../file/tensor.ts";
import {
  type Graph,
  makeNode,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
} from "../file/proto.ts";
import { findLiveNodes, GraphIndex } from "../graph_index.ts";
import { BLOCK_SIZES, spread } from "./dynamic_products.ts";

/** A matrix that is quantised in blocks. */
interface Matrix {
  readonly k: number;
  readonly n: number;
  readonly bits: 4 | 8;
  readonly blockSize: number;
  readonly weights: Tensor;
  readonly scales: Tensor;
  readonly zeroPoints: Tensor | undefined;
  /** Whether the graph stores the weights as `[n, k]`, rather than `[k, n]`. */
  readonly isTransposed: boolean;
  /** Whether all blocks of an output have the same scale and zero point, which are stored once. */
  readonly isSpread: boolean;
}

const BITS: Readonly<Record<string, 4 | 8>> = { int4: 4, uint4: 4, int8: 8, uint8: 8 };

/** Replaces each `MatMul` whose weights are dequantised. Other nodes are unchanged. */
export function multiplyDequantized(graph: Graph): Graph {
  const index = new GraphIndex(graph);
  const constants: Tensor[] = [];
  const nodes = graph.nodes.map((node) => {
    const matrix = node.opType === "MatMul" ? findMatrix(index, node.inputs[1]!) : undefined;
    if (matrix === undefined) return node;
    const [output] = node.outputs as [string];
    const { k, n, bits, blockSize, isSpread } = matrix;
    const parts = makeParts(matrix, output);
    constants.push(...parts);
    return makeNode("MatMulNBits", [node.inputs[0]!, ...parts.map(({ name }) => name)], [output], {
      domain: "com.microsoft",
      name: node.name,
      attributes: {
        ...{ K: k, N: n, bits, block_size: blockSize },
        ...!isSpread && { accuracy_level: 4 },
      },
    });
  });
  if (constants.length === 0) return graph;
  const live = findLiveNodes(nodes, graph.outputs.map(({ name }) => name));
  return { ...graph, nodes: live, initializers: [...graph.initializers, ...constants] };
}

function findMatrix(index: GraphIndex, name: string): Matrix | undefined {
  const behind = skipTransposition(index, name);
  const node = index.producers.get(behind.name);
  if (node?.opType !== "DequantizeLinear") return undefined;
  const before = skipTransposition(index, node.inputs[0]!);
  const isTransposed = behind.isTransposed !== before.isTransposed;
  const [scales, zeroPoints] = node.inputs.slice(1).map((input) => index.constants.get(input));
  const weights = index.constants.get(before.name);
  const bits = BITS[weights?.dtype ?? ""];
  const isFloat = scales?.dtype === "float32" || scales?.dtype === "float16";
  if (bits === undefined || weights?.shape.length !== 2 || !isFloat) return undefined;
  if (node.inputs[2] && zeroPoints === undefined) return undefined;
  const [rows, columns] = weights.shape as [number, number];
  const [k, n] = isTransposed ? [columns, rows] : [rows, columns];
  const axis = (readIntAttribute(node, "axis") ?? 1) + 2;
  const isAlongK = axis % 2 === (behind.isTransposed ? 1 : 0);
  const common = { k, n, bits, weights, scales, zeroPoints, isTransposed };
  const isSpread = [scales, ...zeroPoints ? [zeroPoints] : []].every(({ shape }) =>
    countElements(shape) === 1 || (shape.length === 1 && shape[0] === n && !isAlongK)
  );
  if (isSpread) {
    const blockSize = BLOCK_SIZES.find((size) => k % size === 0);
    return bits === 8 && blockSize !== undefined ? { ...common, blockSize, isSpread } : undefined;
  }
  const blockSize = readIntAttribute(node, "block_size") ?? 0;
  const fits = blockSize >= 16 && (blockSize & (blockSize - 1)) === 0 && k % blockSize === 0;
  if (!isAlongK || !fits || scales.shape.length !== 2 || before.isTransposed) return undefined;
  return { ...common, blockSize, isSpread };
}

/** Follows a matrix back through a transposition. */
function skipTransposition(
  index: GraphIndex,
  name: string,
): { readonly name: string; readonly isTransposed: boolean } {
  const node = index.producers.get(name);
  const isTransposed = node?.opType === "Transpose" &&
    readIntsAttribute(node, "perm")?.join() === "1,0";
  return { name: isTransposed ? node.inputs[0]! : name, isTransposed };
}

/** Makes the levels, scales and zero points that `MatMulNBits` takes. */
function makeParts(matrix: Matrix, output: string): Tensor[] {
  const { k, n, bits, blockSize, weights, scales, zeroPoints } = matrix;
  const blocks = k / blockSize;
  const make = (
    part: string,
    [source, dtype]: readonly [Tensor | undefined, Tensor["dtype"]],
    shape: readonly number[],
    compute: (bytes: Uint8Array, into: Uint8Array) => void,
  ): Tensor => {
    const length = countElementBytes(dtype, countElements(shape));
    return {
      name: `${output}/${part}`,
      dtype,
      shape,
      rest: [],
      data: {
        kind: "computed",
        sources: source ? [source] : [],
        length,
        compute: ([bytes], into) => compute(bytes ?? new Uint8Array(0), into),
      },
    };
  };
  const isSigned = weights.dtype.startsWith("int");
  const order = { ...matrix, isSigned };
  const levels = make(
    "levels",
    [weights, "uint8"],
    [n, blocks, blockSize * bits / 8],
    (bytes, into) => packLevels(bytes, into, { ...order, count: k }),
  );
  if (matrix.isSpread) {
    const count = zeroPoints ? countElements(zeroPoints.shape) : 1;
    const zeros = make(
      "zero",
      [zeroPoints, "uint8"],
      [count],
      (bytes, into) =>
        into.set(
          bytes.length > 0
            ? bytes.map((byte) => isSigned ? byte ^ 128 : byte)
            : [isSigned ? 128 : 0],
        ),
    );
    const spreadTo = (source: Tensor, part: string) =>
      spread(source, { name: `${output}/${part}`, n, blocks });
    return [levels, spreadTo(scales, "scales"), spreadTo(zeros, "zeros")];
  }
  const parts = [
    levels,
    make(
      "scales",
      [scales, scales.dtype],
      [n * blocks],
      (bytes, into) => turnScales(bytes, into, { ...order, blocks }),
    ),
  ];
  // Without zero points, `MatMulNBits` uses the middle of the range, which is what 0 becomes when signed levels are
  // made unsigned.
  if (isSigned && zeroPoints === undefined) return parts;
  const shape = [n * Math.ceil(blocks * bits / 8)];
  return [
    ...parts,
    make("zeros", [zeroPoints, "uint8"], shape, (bytes, into) => {
      if (zeroPoints === undefined) into.fill(0);
      else packLevels(bytes, into, { ...order, count: blocks });
    }),
  ];
}

type Order = Pick<Matrix, "n" | "bits" | "isTransposed"> & { readonly isSigned: boolean };

/** Packs levels `[n, count]`, each output's row in whole bytes, and makes signed ones unsigned. */
function packLevels(
  bytes: Uint8Array,
  into: Uint8Array,
  { n, bits, isTransposed, isSigned, count }: Order & { readonly count: number },
): void {
  const flip = isSigned ? 1 << (bits - 1) : 0;
  const rowBytes = Math.ceil(count * bits / 8);
  for (let output = 0; output < n; output++) {
    for (let i = 0; i < count; i++) {
      const from = isTransposed ? output * count + i : i * n + output;
      const at = output * rowBytes;
      if (bits === 8) into[at + i] = bytes[from]! ^ flip;
      else {
        const level = ((bytes[from >> 1]! >> (4 * (from & 1))) & 15) ^ flip;
        const byte = at + (i >> 1);
        // `into` need not be zeroed: the first level of a byte overwrites it.
        into[byte] = i % 2 === 0 ? level : into[byte]! | level << 4;
      }
    }
  }
}

/** Orders scales by output. */
function turnScales(
  bytes: Uint8Array,
  into: Uint8Array,
  { n, blocks, isTransposed }: Order & { readonly blocks: number },
): void {
  const size = into.length / (n * blocks);
  for (let output = 0; output < n; output++) {
    for (let block = 0; block < blocks; block++) {
      const from = (isTransposed ? output * blocks + block : block * n + output) * size;
      into.set(bytes.subarray(from, from + size), (output * blocks + block) * size);
    }
  }
}
