/**
 * Replaces int8 products by `MatMulNBits`, which quantises each row of activations by itself.
 *
 * Exports in int8 quantise all rows of a step with one scale (`DynamicQuantizeLinear`), multiply integers
 * (`MatMulInteger`) and scale the result. `MatMulNBits` with 8 bits at accuracy level 4 has the same weights, but a
 * scale for each block of a row, so that a row's result does not depend on other rows of the step.
 *
 * Convolutions over time (`ConvInteger`, in LFM2) become convolutions in f32, for which their few weights are expanded.
 *
 * The 16 levels of bitsandbytes' 4-bit weights (`MatMulBnb4`) are not evenly spaced. They are rounded to 8 bits, with
 * an error of at most 0.4 % of the largest weight in a block.
 *
 * @module
 */
import { countElements, countStoredBytes } from "../file/tensor.ts";
import { type Graph, makeNode, type Node, readIntAttribute, type Tensor } from "../file/proto.ts";
import { findLiveNodes, GraphIndex } from "../graph_index.ts";

/** Possible block sizes. The largest one that divides a row is used. */
export const BLOCK_SIZES = [128, 64, 32, 16];

/** A product of f32 rows with an 8-bit matrix, its scales and its bias. */
interface DynamicProduct {
  readonly x: string;
  /** int8 or uint8 `[k, n]`; `[n, inputs, taps]` of a convolution. */
  readonly weights: Tensor;
  /** f32, one or `[n]`. */
  readonly scales: Tensor;
  readonly zeroPoints: Tensor | undefined;
  readonly bias?: string | undefined;
  readonly output: string;
}

/** Replaces int8 products, int8 convolutions and `MatMulBnb4`. Other nodes are unchanged. */
export function multiplyInBlocks(graph: Graph): Graph {
  const index = new GraphIndex(graph);
  const replaced = new Map<string, { readonly nodes: Node[]; readonly constants: Tensor[] }>();
  for (const node of graph.nodes) {
    const ofCodes = spellCodes(index, node);
    if (ofCodes !== undefined) replaced.set(node.outputs[0]!, ofCodes);
    const found = findProduct(index, node);
    const spelled = found && (node.opType === "ConvInteger" ? expand(found, node) : spell(found));
    if (spelled !== undefined) replaced.set(found!.output, spelled);
  }
  if (replaced.size === 0) return graph;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node.outputs[0]!)?.nodes ?? [node]);
  const wanted = graph.outputs.map(({ name }) => name);
  const live = findLiveNodes(nodes, wanted);
  const constants = [...replaced.values()].flatMap((each) => each.constants);
  return { ...graph, nodes: live, initializers: [...graph.initializers, ...constants] };
}

function findProduct(index: GraphIndex, node: Node): DynamicProduct | undefined {
  switch (node.opType) {
    case "MatMulInteger":
    case "ConvInteger":
      return matchIntegerProduct(index, node);
    case "MatMulIntegerToFloat": {
      const [levels, weights, scale, scales, zero, zeros, bias] = node.inputs;
      const parts = { levels, weights, scale, scales, zero, zeros, bias };
      return join(index, parts, node.outputs[0]!);
    }
    case "DynamicQuantizeMatMul": {
      const [x, weights, scales, zeros, bias] = node.inputs;
      return withWeights(index, { x: x!, weights, scales, zeros, bias }, node.outputs[0]!);
    }
  }
  return undefined;
}

/**
 * Matches `MatMulInteger` or `ConvInteger`, cast to f32 and multiplied by both scales, either by their product or one
 * after the other.
 */
function matchIntegerProduct(
  index: GraphIndex,
  { inputs, outputs }: Node,
): DynamicProduct | undefined {
  const [levels, weights, zero, zeros] = inputs;
  const cast = index.onlyConsumer(outputs[0]!);
  const first = cast?.opType === "Cast" ? index.onlyConsumer(cast.outputs[0]!) : undefined;
  if (first?.opType !== "Mul") return undefined;
  const parts = { levels, weights, zero, zeros };
  const factor = first.inputs.find((name) => name !== cast!.outputs[0])!;
  const both = index.producers.get(factor);
  if (both?.opType === "Mul") {
    for (const [scale, scales] of [both.inputs, both.inputs.toReversed()]) {
      const found = join(index, { ...parts, scale, scales }, first.outputs[0]!);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  const second = index.onlyConsumer(first.outputs[0]!);
  if (second?.opType !== "Mul") return undefined;
  const other = second.inputs.find((name) => name !== first.outputs[0])!;
  for (const [scale, scales] of [[factor, other], [other, factor]]) {
    const found = join(index, { ...parts, scale, scales }, second.outputs[0]!);
    if (found !== undefined) return found;
  }
  return undefined;
}

type Names = Readonly<Partial<Record<"weights" | "scales" | "zeros" | "bias", string | undefined>>>;

/** Makes the product if its rows are quantised by a `DynamicQuantizeLinear`. */
function join(
  index: GraphIndex,
  { levels, scale, zero, ...names }: Names & {
    readonly levels: string | undefined;
    readonly scale: string | undefined;
    readonly zero: string | undefined;
  },
  output: string,
): DynamicProduct | undefined {
  const rounding = index.producers.get(levels ?? "");
  if (rounding?.opType !== "DynamicQuantizeLinear") return undefined;
  if ([levels, scale, zero].join("\n") !== rounding.outputs.join("\n")) return undefined;
  return withWeights(index, { x: rounding.inputs[0]!, ...names }, output);
}

function withWeights(
  { constants }: GraphIndex,
  { x, weights: matrix, scales: factors, zeros, bias }: Names & { readonly x: string },
  output: string,
): DynamicProduct | undefined {
  const [weights, scales] = [constants.get(matrix ?? ""), constants.get(factors ?? "")];
  const zeroPoints = constants.get(zeros ?? "");
  const isKnown = zeroPoints !== undefined || !zeros;
  const isOf8Bits = weights?.dtype === "int8" || weights?.dtype === "uint8";
  if (!isKnown || !isOf8Bits || scales?.dtype !== "float32") return undefined;
  return { x, weights, scales, zeroPoints, bias, output };
}

function spell(
  { x, weights, scales, zeroPoints, bias, output }: DynamicProduct,
): { readonly nodes: Node[]; readonly constants: Tensor[] } | undefined {
  if (weights.shape.length !== 2) return undefined;
  const [k, n] = weights.shape as [number, number];
  const blockSize = BLOCK_SIZES.find((size) => k % size === 0);
  const isVector = [scales, ...zeroPoints ? [zeroPoints] : []].every(({ shape }) =>
    [1, n].includes(countElements(shape))
  );
  if (blockSize === undefined || !isVector) return undefined;
  const blocks = k / blockSize;
  const name = (part: string) => `${output}/${part}`;
  const flip = weights.dtype === "int8" ? 128 : 0;
  const transpose = (
    source: Tensor,
    part: string,
    [rows, columns]: readonly [number, number],
  ): Tensor => ({
    ...{ name: name(part), dtype: "uint8", shape: [rows, columns], rest: [] },
    data: {
      kind: "transposed",
      ...{ source, numRows: rows, numColumns: columns, flip, length: rows * columns },
    },
  });
  const levels = { ...transpose(weights, "levels", [n, k]), shape: [n, blocks, blockSize] };
  const constants = [levels, spread(scales, { name: name("scales"), n, blocks })];
  // Without zero points, 128 is the default.
  if (flip === 0 || !isZero(zeroPoints)) {
    const own = zeroPoints ?? makeZero(weights);
    const zeros = transpose(own, "own_zeros", [countElements(own.shape), 1]);
    constants.push(spread(zeros, { name: name("zeros"), n, blocks }));
  }
  const product = makeNode(
    "MatMulNBits",
    [x, ...constants.map((tensor) => tensor.name)],
    [bias ? name("product") : output],
    {
      domain: "com.microsoft",
      name: name("MatMulNBits"),
      attributes: { K: k, N: n, bits: 8, block_size: blockSize, accuracy_level: 4 },
    },
  );
  const nodes = bias ? [product, makeNode("Add", [name("product"), bias], [output])] : [product];
  return { nodes, constants };
}

/** Makes a convolution over time with f32 weights. */
function expand(
  { x, weights, scales, zeroPoints, output }: DynamicProduct,
  { attributes, name }: Node,
): { readonly nodes: Node[]; readonly constants: Tensor[] } | undefined {
  const { shape } = weights;
  if (shape.length !== 3) return undefined;
  const count = countElements(shape);
  const perChannel = count / shape[0]!;
  const Levels = weights.dtype === "int8" ? Int8Array : Uint8Array;
  const compute = (sources: readonly Uint8Array[], into: Uint8Array) => {
    const [levels, factors, zeros] = sources.map((bytes) => bytes.slice().buffer);
    const [all, zero] = [new Levels(levels!), zeros ? new Levels(zeros) : [0]];
    const scale = new Float32Array(factors!);
    const at = (channel: number, { length }: ArrayLike<number>) => length === 1 ? 0 : channel;
    const values = Float32Array.from(all, (level, i) => {
      const channel = Math.floor(i / perChannel);
      return (level - zero[at(channel, zero)]!) * scale[at(channel, scale)]!;
    });
    into.set(new Uint8Array(values.buffer));
  };
  const sources = [weights, scales, ...zeroPoints ? [zeroPoints] : []];
  const expanded: Tensor = {
    ...{ name: `${output}/weights`, dtype: "float32", shape, rest: [] },
    data: { kind: "computed", sources, compute, length: 4 * count },
  };
  const node = { ...makeNode("Conv", [x, expanded.name], [output], { name }), attributes };
  return { nodes: [node], constants: [expanded] };
}

/** Repeats a constant for each block of each output. The constant has one element, or one per output. */
export function spread(
  source: Tensor,
  { name, n, blocks }: { readonly name: string; readonly n: number; readonly blocks: number },
): Tensor {
  const isOne = countElements(source.shape) === 1;
  const size = countStoredBytes(source) / (isOne ? 1 : n);
  const length = n * blocks * size;
  const compute = ([bytes]: readonly Uint8Array[], into: Uint8Array) => {
    for (let at = 0; at < length; at += size) into.set(bytes!, at);
  };
  const part = { source, from: 0, length: size };
  const parts = Array.from({ length: blocks }, () => part);
  return {
    ...source,
    name,
    shape: [n * blocks],
    data: isOne
      ? { kind: "computed", sources: [source], compute, length }
      : { kind: "rows", numRows: n, parts, length },
  };
}

function isZero(zeroPoints: Tensor | undefined): boolean {
  if (zeroPoints === undefined) return true;
  const { data } = zeroPoints;
  return data.kind === "memory" && data.bytes.every((byte) => byte === 0);
}

/** Makes a zero point of 0, for uint8 weights without a zero point. */
function makeZero({ name }: Tensor): Tensor {
  const data = { kind: "memory", bytes: new Uint8Array(1) } as const;
  return { name: `${name}/no_zero`, dtype: "uint8", shape: [1], data, rest: [] };
}

/** Values of FP4 by its lower three bits; the highest bit is the sign. */
const FP4 = [0, 0.0052083333, 2 / 3, 1, 1 / 3, 0.5, 1 / 6, 0.25];
const NF4 = [
  ...[-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0],
  ...[0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1],
];
/** The values of the 16 codes, by `quant_type`, relative to the largest weight of a block. */
const CODES = [[...FP4, ...FP4.map((value) => -value)], NF4];

function spellCodes(
  { constants }: GraphIndex,
  node: Node,
): { readonly nodes: Node[]; readonly constants: Tensor[] } | undefined {
  if (node.opType !== "MatMulBnb4") return undefined;
  const [x, ...names] = node.inputs as [string, ...string[]];
  const [codes, largest] = names.map((name) => constants.get(name));
  const [k, n, given, type] = ["K", "N", "block_size", "quant_type"].map((name) =>
    readIntAttribute(node, name) ?? 0
  ) as [number, number, number, number];
  const values = CODES[type];
  const isFloat = largest?.dtype === "float32" || largest?.dtype === "float16";
  // Blocks may reach from one row into the next.
  const blockSize = BLOCK_SIZES.find((size) => k % size === 0 && given % size === 0);
  if (codes === undefined || !isFloat || values === undefined || blockSize === undefined) {
    return undefined;
  }
  const count = countElements(largest.shape);
  if (count * given !== n * k) return undefined;
  const [output] = node.outputs as [string];
  const levels: Tensor = {
    ...{ name: `${output}/levels`, dtype: "uint8", rest: [] },
    shape: [n, k / blockSize, blockSize],
    data: {
      kind: "looked_up",
      source: codes,
      table: Uint8Array.from(values, (value) => 128 + Math.round(127 * value)),
      length: n * k,
    },
  };
  const { dtype } = largest;
  const isHalf = dtype === "float16";
  const own = isHalf ? largest : divideBy127(largest, `${output}/scale`);
  const scales = spread(own, { name: `${output}/scales`, n: count, blocks: given / blockSize });
  const operands = [levels, scales];
  const product = isHalf ? `${output}/product` : output;
  const nodes = [
    makeNode("MatMulNBits", [x, ...operands.map(({ name }) => name)], [product], {
      domain: "com.microsoft",
      attributes: { K: k, N: n, bits: 8, block_size: blockSize },
    }),
  ];
  if (!isHalf) return { nodes, constants: operands };
  // The division by 127 follows the product, because the scales of small weights would lose bits in f16.
  const unit: Tensor = {
    ...{ name: `${output}/unit`, dtype, shape: [], rest: [] },
    data: { kind: "memory", bytes: new Uint8Array(Float16Array.of(1 / 127).buffer) },
  };
  nodes.push(makeNode("Mul", [product, unit.name], [output]));
  return { nodes, constants: [...operands, unit] };
}

/** The scales of levels from -127 to 127, by the largest weight of each block in f32. */
function divideBy127(largest: Tensor, name: string): Tensor {
  const compute = ([bytes]: readonly Uint8Array[], into: Uint8Array) => {
    const scales = new Float32Array(bytes!.slice().buffer).map((weight) => weight / 127);
    into.set(new Uint8Array(scales.buffer));
  };
  const length = 4 * countElements(largest.shape);
  return { ...largest, name, data: { kind: "computed", sources: [largest], compute, length } };
}
