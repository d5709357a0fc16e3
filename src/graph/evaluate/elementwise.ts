/**
 * Elementwise operators. Inputs of different shapes are broadcast.
 *
 * @module
 */
import { countElements, type TensorType, toDtype } from "../file/tensor.ts";
import { readFloatAttribute, readIntAttribute } from "../file/proto.ts";
import {
  broadcastShapes,
  broadcastStrides,
  type Call,
  gatherStrided,
  isComputable,
  need,
  type Rule,
  type Rules,
  type Value,
} from "./value.ts";

type Scalar = (...elements: number[]) => number;

/** Applies a function to the inputs element by element. Without a function, only the result's shape is computed. */
function zip(
  values: readonly Value[],
  dtype: TensorType,
  compute: Scalar | undefined,
): readonly [Value] {
  const shape = broadcastShapes(values.map((value) => value.shape));
  if (compute === undefined || !isComputable(shape)) return [{ dtype, shape }];
  const columns: Float64Array[] = [];
  for (const { data, shape: own } of values) {
    if (data === undefined) return [{ dtype, shape }];
    columns.push(
      data.length === 1 || countElements(shape) === data.length
        ? data
        : gatherStrided(data, shape, broadcastStrides(own, shape)),
    );
  }
  const [a, b, c] = columns as [Float64Array, Float64Array?, Float64Array?];
  const at = (column: Float64Array, i: number) => column[column.length === 1 ? 0 : i]!;
  const data = new Float64Array(countElements(shape));
  for (let i = 0; i < data.length; i++) {
    if (c) data[i] = compute(at(a, i), at(b!, i), at(c, i));
    else if (b) data[i] = compute(at(a, i), at(b, i));
    else data[i] = compute(at(a, i));
  }
  return [{ dtype, shape, data }];
}

function isInteger(dtype: TensorType): boolean {
  return !dtype.includes("float");
}

/** An operator with one input. */
function unary(compute?: Scalar, dtype?: TensorType): Rule {
  return (call) => zip([need(call, 0)], dtype ?? need(call, 0).dtype, compute);
}

/** An operator with any number of inputs, which are combined from left to right. */
function folded(compute: (dtype: TensorType) => Scalar): Rule {
  return (call) => {
    const first = need(call, 0);
    let result = first;
    for (let i = 1; i < call.inputs.length; i++) {
      [result] = zip([result, need(call, i)], first.dtype, compute(first.dtype));
    }
    return [result];
  };
}

/** An operator that compares two inputs. */
function comparison(compute: Scalar): Rule {
  return (call) => zip([need(call, 0), need(call, 1)], "bool", compute);
}

function cast(call: Call): readonly [Value] {
  const dtype = toDtype(readIntAttribute(call.node, "to") ?? 0);
  const input = need(call, 0);
  if (dtype === "bool") return zip([input], dtype, (x) => x === 0 ? 0 : 1);
  return zip([input], dtype, isInteger(dtype) ? Math.trunc : (x) => x);
}

/** `Clip` with its bounds as inputs, or as attributes before opset 11. */
function clip(call: Call): readonly [Value] {
  const input = need(call, 0);
  const low = call.inputs[1]?.data?.[0] ?? readFloatAttribute(call.node, "min");
  const high = call.inputs[2]?.data?.[0] ?? readFloatAttribute(call.node, "max");
  return zip(
    [input],
    input.dtype,
    (x) => Math.min(Math.max(x, low ?? -Infinity), high ?? Infinity),
  );
}

/** Activations whose elements no partial evaluation needs: only their shapes are computed. */
const SHAPE_ONLY = [
  "Erf",
  "Gelu",
  "FastGelu",
  "QuickGelu",
  "BiasGelu",
  "Swish",
  "HardSwish",
  "HardSigmoid",
  "LeakyRelu",
  "Elu",
  "Selu",
  "Celu",
  "Mish",
  "Softsign",
  "ThresholdedRelu",
  "Atan",
  "Tan",
  "Sinh",
  "Cosh",
];

/** Rules of the elementwise operators. Their names also tell the cut which operators keep tokens independent. */
export const ELEMENTWISE_RULES: Rules = {
  ...Object.fromEntries(SHAPE_ONLY.map((name) => [name, unary()])),
  Identity: unary((x) => x),
  // Nothing is dropped at inference. The second output is the mask.
  Dropout: (call) => [...unary((x) => x)(call), ...unary(() => 1, "bool")(call)],
  Cast: cast,
  CastLike: (call) => {
    const { dtype } = need(call, 1);
    return zip([need(call, 0)], dtype, isInteger(dtype) ? undefined : (x) => x);
  },
  Neg: unary((x) => -x),
  Abs: unary(Math.abs),
  Sqrt: unary(Math.sqrt),
  Exp: unary(Math.exp),
  Log: unary(Math.log),
  Tanh: unary(Math.tanh),
  Sigmoid: unary((x) => 1 / (1 + Math.exp(-x))),
  Relu: unary((x) => Math.max(x, 0)),
  Softplus: unary((x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))),
  // The angle is rounded to f32 first, as in the graph: if it is large, the rounding changes the result noticeably.
  Cos: unary((x) => Math.cos(Math.fround(x))),
  Sin: unary((x) => Math.sin(Math.fround(x))),
  Floor: unary(Math.floor),
  Ceil: unary(Math.ceil),
  Round: unary(),
  Sign: unary(Math.sign),
  Reciprocal: unary((x) => 1 / x),
  Not: unary((x) => x === 0 ? 1 : 0),
  IsNaN: unary((x) => Number.isNaN(x) ? 1 : 0, "bool"),
  IsInf: unary((x) => Math.abs(x) === Infinity ? 1 : 0, "bool"),
  Clip: clip,
  Add: folded(() => (a, b) => a + b),
  Sub: folded(() => (a, b) => a - b),
  Mul: folded(() => (a, b) => a * b),
  Div: folded((dtype) => isInteger(dtype) ? (a, b) => Math.trunc(a / b) : (a, b) => a / b),
  Mod: (call) => {
    const [a, b] = [need(call, 0), need(call, 1)];
    // With fmod=1 the sign is the dividend's, otherwise the divisor's.
    const fmod = readIntAttribute(call.node, "fmod") === 1;
    return zip([a, b], a.dtype, (x, y) => fmod ? x % y : ((x % y) + y) % y);
  },
  Pow: folded(() => Math.pow),
  Min: folded(() => Math.min),
  Max: folded(() => Math.max),
  And: folded(() => (a, b) => a && b ? 1 : 0),
  Or: folded(() => (a, b) => a || b ? 1 : 0),
  Xor: folded(() => (a, b) => a === b ? 0 : 1),
  BitwiseAnd: folded(() => (a, b) => a & b),
  BitwiseOr: folded(() => (a, b) => a | b),
  PRelu: (call) => zip([need(call, 0), need(call, 1)], need(call, 0).dtype, undefined),
  Equal: comparison((a, b) => a === b ? 1 : 0),
  Less: comparison((a, b) => a < b ? 1 : 0),
  LessOrEqual: comparison((a, b) => a <= b ? 1 : 0),
  Greater: comparison((a, b) => a > b ? 1 : 0),
  GreaterOrEqual: comparison((a, b) => a >= b ? 1 : 0),
  Where: (call) => {
    const [condition, a, b] = [need(call, 0), need(call, 1), need(call, 2)];
    return zip([condition, a, b], a.dtype, (test, x, y) => test ? x : y);
  },
};
