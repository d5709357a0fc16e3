/**
 * Products, norms and quantisation. Except for small matrix products, only the shapes of their results are computed,
 * because no partial evaluation needs their elements.
 *
 * @module
 */
import { countElements, type TensorType } from "../file/tensor.ts";
import { readIntAttribute, readIntsAttribute, readStringAttribute } from "../file/proto.ts";
import {
  broadcastShapes,
  broadcastStrides,
  type Call,
  gatherStrided,
  makeData,
  need,
  needData,
  normalizeAxis,
  type Rule,
  type Rules,
  UnknownValue,
  type Value,
} from "./value.ts";

function computeProductShape(a: readonly number[], b: readonly number[]): number[] {
  const [left, right] = [a.length === 1 ? [1, ...a] : a, b.length === 1 ? [...b, 1] : b];
  if (left.at(-1) !== right.at(-2)) throw new UnknownValue(`${a} times ${b}`);
  const batch = broadcastShapes([left.slice(0, -2), right.slice(0, -2)]);
  const rows = a.length === 1 ? [] : [left.at(-2)!];
  const columns = b.length === 1 ? [] : [right.at(-1)!];
  return [...batch, ...rows, ...columns];
}

/** The shape of the matrix product of the first two inputs. */
function product(dtype?: TensorType): Rule {
  return (call) => {
    const [left, right] = [need(call, 0), need(call, 1)];
    return [{ dtype: dtype ?? left.dtype, shape: computeProductShape(left.shape, right.shape) }];
  };
}

/** Products that take more multiplications are not computed. */
const MAX_MULTIPLICATIONS = 2 ** 23;

/** The matrix product of both inputs, computed if it is small, as in the body of a `Scan`. */
function matMul(call: Call): readonly Value[] {
  const [a, b] = [need(call, 0), need(call, 1)];
  const shape = computeProductShape(a.shape, b.shape);
  const unknown = { dtype: a.dtype, shape };
  const k = a.shape.at(-1)!;
  const isSmall = countElements(shape) * k <= MAX_MULTIPLICATIONS;
  const isMatrix = a.shape.length > 1 && b.shape.length > 1;
  if (!isSmall || !isMatrix || a.data === undefined || b.data === undefined) return [unknown];
  const [batch, rows, columns] = [shape.slice(0, -2), shape.at(-2)!, shape.at(-1)!];
  const [left, right] = [a, b].map(({ data, shape: own }) => {
    const all = [...batch, ...own.slice(-2)];
    return gatherStrided(data!, all, broadcastStrides(own, all));
  }) as [Float64Array, Float64Array];
  const data = makeData(countElements(shape), (i) => {
    const column = i % columns;
    const row = Math.floor(i / columns);
    const matrix = Math.floor(row / rows);
    let sum = 0;
    for (let j = 0; j < k; j++) {
      sum += left[row * k + j]! * right[(matrix * k + j) * columns + column]!;
    }
    return sum;
  });
  return [{ ...unknown, data }];
}

/** The product with a quantised matrix, whose number of columns is an attribute. */
function packedProduct(call: Call): readonly Value[] {
  const { dtype, shape } = need(call, 0);
  return [{ dtype, shape: shape.with(-1, readIntAttribute(call.node, "N") ?? 0) }];
}

function gemm(call: Call): readonly Value[] {
  const [a, b] = [need(call, 0), need(call, 1)];
  const rows = readIntAttribute(call.node, "transA") === 1 ? a.shape[1]! : a.shape[0]!;
  const columns = readIntAttribute(call.node, "transB") === 1 ? b.shape[0]! : b.shape[1]!;
  return [{ dtype: a.dtype, shape: [rows, columns] }];
}

/** `Conv`: the output has a channel for each filter; its sizes depend on stride, padding and dilated kernel size. */
function conv(call: Call): readonly Value[] {
  const [{ dtype, shape }, weights] = [need(call, 0), need(call, 1)];
  const autoPad = readStringAttribute(call.node, "auto_pad") ?? "NOTSET";
  if (autoPad !== "NOTSET") throw new UnknownValue(autoPad);
  const [batch, , ...positions] = shape as [number, number, ...number[]];
  const ints = (name: string, otherwise: number) => (axis: number) =>
    readIntsAttribute(call.node, name)?.[axis] ?? otherwise;
  const [pad, stride, dilation] = [ints("pads", 0), ints("strides", 1), ints("dilations", 1)];
  const sizes = positions.map((size, axis) => {
    const extent = dilation(axis) * (weights.shape[axis + 2]! - 1) + 1;
    const padded = size + pad(axis) + pad(axis + positions.length);
    return Math.floor((padded - extent) / stride(axis)) + 1;
  });
  return [{ dtype, shape: [batch, weights.shape[0]!, ...sizes] }];
}

/** The first output has the shape of the first input. Other outputs are unknown. */
const likeFirst: Rule = (call) => [{ dtype: need(call, 0).dtype, shape: need(call, 0).shape }];

/** The norm of a sum. The sum itself is the fourth output. */
const skipNorm: Rule = (call) => {
  const { dtype, shape } = need(call, 0);
  return [{ dtype, shape }, undefined, undefined, { dtype, shape }];
};

function groupQueryAttention(call: Call): readonly (Value | undefined)[] {
  const query = need(call, 0);
  const heads = readIntAttribute(call.node, "num_heads") ?? 1;
  const kvHeads = readIntAttribute(call.node, "kv_num_heads") ?? heads;
  const width = query.shape.at(-1)!;
  const isPacked = !call.node.inputs[1];
  const shape = query.shape.with(-1, isPacked ? (width * heads) / (heads + 2 * kvHeads) : width);
  return [{ dtype: query.dtype, shape }];
}

/** `MultiHeadAttention`: the output is as wide as the values. */
function multiHeadAttention(call: Call): readonly (Value | undefined)[] {
  const query = need(call, 0);
  if (query.shape.length === 5) {
    const [batch, length, heads, , size] = query.shape as [number, number, number, number, number];
    return [{ dtype: query.dtype, shape: [batch, length, heads * size] }];
  }
  const value = call.inputs[2];
  return [{
    dtype: query.dtype,
    shape: value?.shape.length === 3 ? query.shape.with(-1, value.shape[2]!) : query.shape,
  }];
}

/**
 * `Attention` of ONNX, or that of com.microsoft, which projects its input, and whose output is as wide as its values.
 */
function attention(call: Call): readonly (Value | undefined)[] {
  if (call.node.domain === "com.microsoft") {
    const [{ dtype, shape }, weights] = [need(call, 0), need(call, 1)];
    const width = readIntsAttribute(call.node, "qkv_hidden_sizes")?.[2] ?? weights.shape[1]! / 3;
    return [{ dtype, shape: shape.with(-1, width) }];
  }
  const [query, value] = [need(call, 0), need(call, 2)];
  const { shape } = query;
  if (shape.length === 4) return [{ dtype: query.dtype, shape: shape.with(3, value.shape[3]!) }];
  const heads = readIntAttribute(call.node, "q_num_heads") ?? 1;
  const kvHeads = readIntAttribute(call.node, "kv_num_heads") ?? heads;
  return [{ dtype: query.dtype, shape: shape.with(2, (value.shape[2]! / kvHeads) * heads) }];
}

/** Rows of a quantised table. The table has a 4-bit type, or is uint8, with packed numbers in each byte. */
function gatherBlockQuantized(call: Call): readonly Value[] {
  const [table, indices, scales] = [need(call, 0), need(call, 1), need(call, 2)];
  const axis = normalizeAxis(readIntAttribute(call.node, "gather_axis") ?? 0, table.shape.length);
  const packing = table.dtype === "uint8" ? 8 / (readIntAttribute(call.node, "bits") ?? 4) : 1;
  const full = table.shape.with(-1, table.shape.at(-1)! * packing);
  return [{
    dtype: scales.dtype,
    shape: [...full.slice(0, axis), ...indices.shape, ...full.slice(axis + 1)],
  }];
}

/** `TopK`: the largest or smallest elements along an axis, and their indices. */
function topK(call: Call): readonly Value[] {
  const { dtype, shape } = need(call, 0);
  const axis = normalizeAxis(readIntAttribute(call.node, "axis") ?? -1, shape.length);
  const kept = shape.with(axis, needData(call, 1)[0]!);
  return [{ dtype, shape: kept }, { dtype: "int64", shape: kept }];
}

/** `LinearAttention`: the output is as wide as the values, and the state keeps its shape. */
function linearAttention(call: Call): readonly (Value | undefined)[] {
  const [query, value, state] = [need(call, 0), need(call, 2), call.inputs[3]];
  return [{ dtype: query.dtype, shape: query.shape.with(-1, value.shape.at(-1)!) }, state];
}

/** Rules of these operators. */
export const PRODUCT_RULES: Rules = {
  MatMul: matMul,
  FusedMatMul: (call) => {
    if (readIntAttribute(call.node, "transA") || readIntAttribute(call.node, "transB")) {
      throw new UnknownValue("transposed");
    }
    return product()(call);
  },
  MatMulInteger: product("int32"),
  MatMulIntegerToFloat: product("float32"),
  DynamicQuantizeMatMul: product("float32"),
  Gemm: gemm,
  Conv: conv,
  MatMulNBits: packedProduct,
  MatMulBnb4: packedProduct,
  GatherBlockQuantized: gatherBlockQuantized,
  LayerNormalization: likeFirst,
  RMSNormalization: likeFirst,
  SimplifiedLayerNormalization: likeFirst,
  LpNormalization: likeFirst,
  SkipLayerNormalization: skipNorm,
  SkipSimplifiedLayerNormalization: skipNorm,
  Softmax: likeFirst,
  LogSoftmax: likeFirst,
  RotaryEmbedding: likeFirst,
  MoE: likeFirst,
  QMoE: likeFirst,
  GroupQueryAttention: groupQueryAttention,
  MultiHeadAttention: multiHeadAttention,
  Attention: attention,
  TopK: topK,
  CausalConvWithState: (call) => [likeFirst(call)[0], call.inputs[3]],
  LinearAttention: linearAttention,
  // The decay has the shape of the first input, and the rate that of the fourth.
  LinearAttentionGate: (call) => [
    { ...need(call, 0), data: undefined },
    call.inputs[3] && { ...call.inputs[3], data: undefined },
  ],
  GatedRMSNorm: likeFirst,
  GatedAdd: likeFirst,
  MRotaryEmbedding: likeFirst,
  DynamicQuantizeLinear: (call) => {
    const { shape } = need(call, 0);
    return [{ dtype: "uint8", shape }, { dtype: "float32", shape: [] }, {
      dtype: "uint8",
      shape: [],
    }];
  },
  QuantizeLinear: (
    call,
  ) => [{ dtype: call.inputs[2]?.dtype ?? "uint8", shape: need(call, 0).shape }],
  DequantizeLinear: (call) => [{ dtype: need(call, 1).dtype, shape: need(call, 0).shape }],
};
