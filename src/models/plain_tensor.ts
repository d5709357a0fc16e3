/**
 * Tensors in ordinary memory, as preprocessing makes them, and the inputs of graphs made of them.
 *
 * @module
 */
import { type GraphSession, Tensor, type Tensors, type ValueInfo } from "../onnx/runtime/ort.ts";

/** A tensor in ordinary memory. */
export interface PlainTensor {
  /** Element type as ONNX Runtime names it. */
  readonly type: string;
  readonly data: Float32Array | Float16Array | BigInt64Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

/** By transformers.js's names. */
export type PlainTensors = Readonly<Record<string, PlainTensor>>;

/** The tensors among what a processor of transformers.js gives. */
export function plainTensorsOf(outputs: Readonly<Record<string, unknown>>): PlainTensors {
  return Object.fromEntries(
    Object.entries(outputs).flatMap(([name, value]) => {
      const { type, data, dims } = (value ?? {}) as Partial<PlainTensor>;
      const isTensor = typeof type === "string" && ArrayBuffer.isView(data) && dims !== undefined;
      return isTensor ? [[name, { type, data, dims: [...dims] }]] : [];
    }),
  );
}

/**
 * A graph's inputs, each in the type that it wants.
 *
 * @param options.of the graph, at the beginning of a sentence.
 * @throws {Error} naming the input that there is no tensor for.
 */
export function feedsOf(
  { inputs }: Pick<GraphSession, "inputs">,
  { tensorOf, of }: {
    readonly tensorOf: (input: string) => PlainTensor | undefined;
    readonly of: string;
  },
): Tensors {
  return Object.fromEntries(inputs.map((input) => {
    const tensor = tensorOf(input.name);
    if (tensor !== undefined) return [input.name, toTensor(tensor, input)];
    throw new Error(`${of} has an input "${input.name}", which is not known.`);
  }));
}

/** A tensor of an input's type. */
function toTensor({ type, data, dims }: PlainTensor, input: ValueInfo): Tensor {
  if (type === input.type) return new Tensor(input.type, data as Float32Array, dims);
  const numbers = Array.from<number | bigint, number>(data, Number);
  switch (input.type) {
    case "float16":
      return new Tensor("float16", new Uint16Array(Float16Array.from(numbers).buffer), dims);
    case "float32":
      return new Tensor("float32", Float32Array.from(numbers), dims);
    case "int64":
      return new Tensor("int64", BigInt64Array.from(numbers, BigInt), dims);
    case "bool":
      return new Tensor("bool", Uint8Array.from(numbers), dims);
    default:
      throw new Error(`The input "${input.name}" is ${input.type}, which cannot be given.`);
  }
}
