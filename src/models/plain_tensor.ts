/**
 * Tensors in ordinary memory, as preprocessing makes them, and their conversion to the inputs of graphs.
 *
 * @module
 */
import { type GraphSession, Tensor, type Tensors, type ValueInfo } from "../device/ort/ort.ts";

/** A tensor in ordinary memory. */
interface PlainTensor {
  /** Element type, by ONNX Runtime's name. */
  readonly type: string;
  readonly data: Float32Array | Float16Array | BigInt64Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

/** Tensors under the names of transformers.js. */
export type PlainTensors = Readonly<Record<string, PlainTensor>>;

/** Picks the tensors out of a transformers.js processor's result. */
export function toPlainTensors(outputs: Readonly<Record<string, unknown>>): PlainTensors {
  return Object.fromEntries(
    Object.entries(outputs).flatMap(([name, value]) => {
      const { type, data, dims } = (value ?? {}) as Partial<PlainTensor>;
      const isTensor = typeof type === "string" && ArrayBuffer.isView(data) && dims !== undefined;
      return isTensor ? [[name, { type, data, dims: [...dims] }]] : [];
    }),
  );
}

/**
 * Makes a graph's inputs, each in the type that the graph declares.
 *
 * @param options.of how errors name the graph, at the beginning of a sentence.
 * @throws {Error} naming an input for which there is no tensor.
 */
export function toFeeds(
  { inputs }: Pick<GraphSession, "inputs">,
  { getTensor, of }: {
    readonly getTensor: (input: string) => PlainTensor | undefined;
    readonly of: string;
  },
): Tensors {
  return Object.fromEntries(inputs.map((input) => {
    const tensor = getTensor(input.name);
    if (tensor !== undefined) return [input.name, toTensor(tensor, input)];
    throw new Error(`${of} has an input "${input.name}", which is not known.`);
  }));
}

function toTensor({ type, data, dims }: PlainTensor, input: ValueInfo): Tensor {
  if (type === input.type) return new Tensor(input.type, data as Float32Array, dims);
  return tensorFor(input, Array.from<number | bigint, number>(data, Number), dims);
}

/**
 * Converts numbers to an input's type.
 *
 * @throws {Error} when the input does not take numbers.
 */
export function tensorFor(
  { name, type }: Pick<ValueInfo, "name" | "type">,
  values: ArrayLike<number>,
  dims: readonly number[],
): Tensor {
  switch (type) {
    case "float16":
      return new Tensor("float16", new Uint16Array(Float16Array.from(values).buffer), dims);
    case "float32": {
      const floats = values instanceof Float32Array ? values : Float32Array.from(values);
      return new Tensor("float32", floats, dims);
    }
    case "int64":
      return new Tensor("int64", toBigInts(values), dims);
    case "int32":
      return new Tensor("int32", Int32Array.from(values), dims);
    case "bool":
      return new Tensor("bool", Uint8Array.from(values), dims);
    default:
      throw new Error(`The input "${name}" is ${type}, which cannot be given.`);
  }
}

/** Several times as fast as `BigInt64Array.from()`. */
function toBigInts(values: ArrayLike<number>): BigInt64Array {
  const integers = new BigInt64Array(values.length);
  for (let i = 0; i < values.length; i++) integers[i] = BigInt(values[i]!);
  return integers;
}
