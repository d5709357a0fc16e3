/**
 * Builds small ONNX models: a cast, and a masked attention for the prompts of a decoder.
 *
 * @module
 */
import {
  type AttributeValue,
  makeModel,
  makeNode,
  type ModelProto,
  type Tensor,
} from "./file/proto.ts";
import { makeValueInfo, writeModel } from "./file/proto_codec.ts";
import { type TensorType, toDtypeCode } from "./file/tensor.ts";

/** An attention with one head of keys, and the query heads that share it. */
interface MaskedAttention {
  readonly headSize: number;
  readonly scale: number;
  /** `c` in `c * tanh(score / c)`; 0 for none. */
  readonly softcap: number;
}

/** The inputs of {@linkcode buildMaskedAttention}, all f32. */
export const MASKED_INPUTS = {
  /** `[rows, headSize]`. */
  q: "q",
  /** `[keys, headSize]`. */
  k: "k",
  v: "v",
  /** Added to the scores, `[rows, keys]`. */
  mask: "mask",
} as const;

/**
 * Builds `softmax(scale * q k^T + mask) v`. A softcap applies before the mask. The output `out` has the shape of `q`.
 */
export function buildMaskedAttention({ headSize, scale, softcap }: MaskedAttention): ModelProto {
  const { q, k, v, mask } = MASKED_INPUTS;
  const alpha = { float: softcap > 0 ? scale / softcap : scale };
  const product: Record<string, AttributeValue> = { alpha, transB: 1 };
  const nodes = [
    makeNode("FusedMatMul", [q, k], ["scores"], { domain: "com.microsoft", attributes: product }),
    ...softcap > 0
      ? [
        makeNode("Tanh", ["scores"], ["tanh"]),
        makeNode("Mul", ["tanh", "softcap"], ["capped"]),
      ]
      : [],
    makeNode("Add", [softcap > 0 ? "capped" : "scores", mask], ["seen"]),
    makeNode("Softmax", ["seen"], ["weights"], { attributes: { axis: -1 } }),
    makeNode("MatMul", ["weights", v], ["out"]),
  ];
  const declare = (name: string, shape: readonly (number | string)[]) =>
    makeValueInfo(name, "float32", shape);
  return makeModel({
    name: "masked_attention",
    nodes,
    initializers: [scalar("softcap", softcap)],
    inputs: [
      declare(q, ["rows", headSize]),
      declare(k, ["keys", headSize]),
      declare(v, ["keys", headSize]),
      declare(mask, ["rows", "keys"]),
    ],
    outputs: [declare("out", ["rows", headSize])],
  }, [{ domain: "com.microsoft", version: 1 }]);
}

function scalar(name: string, value: number): Tensor {
  const bytes = new Uint8Array(Float32Array.of(value).buffer);
  return { name, dtype: "float32", shape: [], data: { kind: "memory", bytes }, rest: [] };
}

/** Builds a model that casts its input `given` to another dtype, which its output `cast` has. */
export function buildCast(
  { from, to, shape }: {
    readonly from: TensorType;
    readonly to: TensorType;
    /** Symbolic sizes are strings. */
    readonly shape: readonly (number | string)[];
  },
): Uint8Array {
  return writeModel(makeModel({
    name: "cast",
    nodes: [makeNode("Cast", ["given"], ["cast"], { attributes: { to: toDtypeCode(to) } })],
    inputs: [makeValueInfo("given", from, shape)],
    outputs: [makeValueInfo("cast", to, shape)],
  }));
}
