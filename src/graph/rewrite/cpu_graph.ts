/**
 * Fits a graph to ONNX Runtime's CPU provider: expands quantised weights for onnxruntime-web, and turns convolutions
 * over time into convolutions over images.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (MatMulNBits, GatherBlockQuantized)
 * @module
 */
import type { StoredTensor } from "../file/tensor.ts";
import {
  attribute,
  hasSubgraph,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  readIntsAttribute,
  readStringAttribute,
  type Tensor,
  withGraph,
} from "../file/proto.ts";

/**
 * Maximum number of bytes of expanded weights. A model with more stays packed, because memory then matters more than
 * speed.
 */
const MAX_EXPANDED_BYTES = 2 ** 30;

/** A matrix with blocks of values along its rows. The first of the two 4-bit values of a byte is in its lower half. */
interface PackedMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly bits: 4 | 8;
  readonly blockSize: number;
  /**
   * `blocks * blockSize * bits / 8` bytes per row, as u8, or as i4 or u4 in a table. In a table the last block of a row
   * may be shorter.
   */
  readonly values: Tensor;
  /** f32 or f16 `[rows, blocks]`. */
  readonly scales: Tensor;
  /** Packed like the values, each row in whole bytes; if absent, all are 8 or 128 for u8, and 0 for other types. */
  readonly zeroPoints: Tensor | undefined;
}

/**
 * Replaces 4-bit `MatMulNBits` by `MatMul`, and 4-bit `GatherBlockQuantized` by `Gather`. Their weights are expanded
 * when the graph is loaded. Results only differ by the order of sums.
 *
 * In onnxruntime-web, `MatMulNBits` unpacks the weights at every run, and `GatherBlockQuantized` is missing.
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

/**
 * The expanded weights of a node.
 *
 * @returns `undefined` for nodes that are not expanded: other operators, widths other than 4 bits, reordered columns, a
 * bias.
 */
function expandWeights(node: Node, constants: ReadonlyMap<string, Tensor>): Tensor | undefined {
  const tensors = node.inputs.map((name) => constants.get(name));
  const blockSize = readBlockSize(node);
  if (blockSize === undefined) return undefined;
  if (node.opType === "MatMulNBits" && node.inputs.slice(4).every((name) => name === "")) {
    const parts = readParts(tensors[1], tensors[2], tensors[3]);
    const [rows, columns] = [readIntAttribute(node, "N")!, readIntAttribute(node, "K")!];
    return parts && expandMatrix({ rows, columns, bits: 4, blockSize, ...parts }, "columns");
  }
  return node.opType === "GatherBlockQuantized" && tensors[0]?.dtype === "uint8"
    ? expandTable(node, constants)
    : undefined;
}

/** The expanded table of a `GatherBlockQuantized` of 4 or 8 bits; `undefined` for tables of another layout. */
export function expandTable(
  node: Node,
  constants: ReadonlyMap<string, Tensor>,
): Tensor | undefined {
  const [values, , scales, zeroPoints] = node.inputs.map((name) => constants.get(name));
  const blockSize = readIntAttribute(node, "block_size");
  const bits = readIntAttribute(node, "bits") ?? 4;
  const parts = readParts(values, scales, zeroPoints);
  const isByRow = (readIntAttribute(node, "gather_axis") ?? 0) === 0 &&
    (readIntAttribute(node, "quantize_axis") ?? 1) === 1;
  if (!isByRow || blockSize === undefined || parts?.values.shape.length !== 2) return undefined;
  if (bits !== 4 && bits !== 8) return undefined;
  const [rows, width] = parts.values.shape as [number, number];
  const columns = parts.values.dtype === "uint8" ? 8 / bits * width : width;
  return expandMatrix({ rows, columns, bits, blockSize, ...parts }, "rows");
}

/** Values per block of a node with 4-bit weights. */
function readBlockSize(node: Node): number | undefined {
  const is4Bit = (readIntAttribute(node, "bits") ?? 4) === 4;
  return is4Bit ? readIntAttribute(node, "block_size") : undefined;
}

/** Checks that the constants of a node can be unpacked. @returns `undefined` if not. */
function readParts(
  values: Tensor | undefined,
  scales: Tensor | undefined,
  zeroPoints: Tensor | undefined,
): Pick<PackedMatrix, "values" | "scales" | "zeroPoints"> | undefined {
  if (values === undefined || !["uint8", "int4", "uint4"].includes(values.dtype)) return undefined;
  if (scales?.dtype !== "float32" && scales?.dtype !== "float16") return undefined;
  if (zeroPoints !== undefined && zeroPoints.dtype !== values.dtype) return undefined;
  return { values, scales, zeroPoints };
}

/** Expands a matrix in the type of its scales: `[rows, columns]` for `Gather`, or `[columns, rows]` for `MatMul`. */
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
  const { rows, columns, bits, blockSize } = matrix;
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
  const perByte = 8 / bits;
  const zeroBytesPerRow = Math.ceil(blocks / perByte);
  const { dtype } = matrix.values;
  const middle = dtype === "uint8" ? 2 ** (bits - 1) : 0;
  const mask = 2 ** bits - 1;
  /** Reads a number, which has a sign in i4. */
  const read = (bytes: Uint8Array, start: number, at: number) => {
    const level = bytes[start + (at * bits >> 3)]! >> (at * bits & 7) & mask;
    return dtype === "int4" && level > 7 ? level - 16 : level;
  };
  for (let row = 0; row < rows; row++) {
    for (let block = 0; block < blocks; block++) {
      const scale = scales[row * blocks + block]!;
      const zero = zeroPoints ? read(zeroPoints, row * zeroBytesPerRow, block) : middle;
      const start = block * blockSize;
      const end = Math.min(start + blockSize, columns);
      const from = row * bytesPerRow + start / perByte;
      let to = row * strides.row + start * strides.column;
      for (let n = 0; n < end - start; n++, to += strides.column) {
        weights[to] = (read(values, from, n) - zero) * scale;
      }
    }
  }
}

/** Number of channels that ONNX Runtime's kernels for images compute together. */
const BLOCK = 16;
/**
 * Minimum number of output channels per thread that make the conversion worth its cost. Threads can only divide an
 * image of one row by channels.
 */
const CHANNELS_PER_WORK = 64;

/** Elementwise operators, which may stay between two converted convolutions. */
const ELEMENTWISE = new Set(
  ["Add", "Div", "Erf", "LeakyRelu", "Mul", "Relu", "Sigmoid", "Sub", "Sum", "Tanh"],
);

const TO_IMAGE = "planar/to_image";
const TO_SERIES = "planar/to_series";

/**
 * Turns convolutions over time into convolutions over images of height 1, if that is faster. ONNX Runtime's CPU
 * provider has fast kernels only for images: the same products take 25 % less processor time, and transposed
 * convolutions half of it.
 *
 * @param options.threads number of threads that share the work of one operation.
 */
export function makeConvolutionsPlanar(
  model: ModelProto,
  { threads }: { readonly threads: number },
): ModelProto {
  const { graph } = model;
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const gains = (node: Node) => isGain(node, constants.get(node.inputs[1] ?? ""), threads);
  // Subgraphs may read any tensor.
  if (!graph.nodes.some(gains) || graph.nodes.some(hasSubgraph)) return model;

  const nodes: Node[] = [];
  const kernels = new Map<string, Tensor>();
  /** Names of the tensors that exist as images, and of those that exist as series. */
  const images = new Set<string>();
  const series = new Set([...graph.inputs.map(({ name }) => name), ...constants.keys()]);
  const reshape = (from: string, to: string, shape: string) =>
    void nodes.push(makeNode("Reshape", [from, shape], [to]));
  const getImage = (name: string) => {
    if (!images.has(name)) reshape(name, imageName(name), TO_IMAGE);
    images.add(name);
    return imageName(name);
  };
  const needSeries = (name: string) => {
    if (images.has(name) && !series.has(name)) reshape(imageName(name), name, TO_SERIES);
    series.add(name);
  };
  const isScalar = (name: string) => constants.get(name)?.shape.every((size) => size === 1);
  for (const node of graph.nodes) {
    const [input = "", kernel = "", ...bias] = node.inputs;
    if (gains(node)) {
      kernels.set(kernel, imageKernel(constants.get(kernel)!));
      nodes.push(overImages(node, [getImage(input), imageName(kernel), ...bias]));
    } else if (
      node.domain === "" && ELEMENTWISE.has(node.opType) &&
      node.inputs.some((name) => images.has(name)) &&
      node.inputs.every((name) => images.has(name) || isScalar(name))
    ) {
      const inputs = node.inputs.map((name) => images.has(name) ? imageName(name) : name);
      nodes.push({ ...node, inputs, outputs: node.outputs.map(imageName) });
    } else {
      node.inputs.forEach(needSeries);
      nodes.push(node);
      for (const name of node.outputs) series.add(name);
      continue;
    }
    for (const name of node.outputs) images.add(name);
  }
  for (const { name } of graph.outputs) needSeries(name);

  const used = new Set([...nodes.flatMap(({ inputs }) => inputs), ...graph.outputs.map(getName)]);
  const initializers = [
    ...graph.initializers.filter(({ name }) => used.has(name)),
    ...kernels.values(),
    int64Tensor(TO_IMAGE, [4], [0, 0, 1, -1]),
    int64Tensor(TO_SERIES, [3], [0, 0, -1]),
  ];
  // Value infos describe the series.
  return withGraph(model, { nodes, initializers, valueInfos: [] });
}

function isGain(node: Node, kernel: Tensor | undefined, threads: number): boolean {
  const { opType, domain } = node;
  const isKnown = domain === "" && (opType === "Conv" || opType === "ConvTranspose") &&
    kernel?.shape.length === 3 && kernel.dtype === "float32" &&
    (readStringAttribute(node, "auto_pad") ?? "NOTSET") === "NOTSET" &&
    readIntsAttribute(node, "output_shape") === undefined;
  if (!isKnown || opType === "ConvTranspose") return isKnown;
  const [to, from] = kernel.shape as [number, number];
  return (readIntAttribute(node, "group") ?? 1) === 1 && from % BLOCK === 0 && to % BLOCK === 0 &&
    to >= CHANNELS_PER_WORK * threads;
}

function overImages(node: Node, inputs: readonly string[]): Node {
  // Values of attributes for the new axis, which is the image's height. They precede those for the axis of time.
  const ofHeight: Readonly<Record<string, number>> = {
    kernel_shape: 1,
    strides: 1,
    dilations: 1,
    pads: 0,
    output_padding: 0,
  };
  const attributes = node.attributes.map((each) => {
    const first = ofHeight[each.name];
    if (first === undefined) return each;
    return attribute(
      each.name,
      readIntsAttribute(node, each.name)!.flatMap((value) => [first, value]),
    );
  });
  return { ...node, inputs, outputs: node.outputs.map(imageName), attributes };
}

function imageKernel(kernel: Tensor): Tensor {
  const [first, second, length] = kernel.shape as [number, number, number];
  return { ...kernel, name: imageName(kernel.name), shape: [first, second, 1, length] };
}

function imageName(name: string): string {
  return `${name}/image`;
}

function getName({ name }: { readonly name: string }): string {
  return name;
}
