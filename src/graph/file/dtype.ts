/**
 * Element types of ONNX tensors: their code in the file, their name in ONNX Runtime's JavaScript API, their width.
 *
 * @module
 */

/** Name and bits of one element by `TensorProto.DataType` code (0: no fixed width). */
const DTYPES = [
  ["undefined", 0],
  ["float32", 32],
  ["uint8", 8],
  ["int8", 8],
  ["uint16", 16],
  ["int16", 16],
  ["int32", 32],
  ["int64", 64],
  ["string", 0],
  ["bool", 8],
  ["float16", 16],
  ["float64", 64],
  ["uint32", 32],
  ["uint64", 64],
  ["complex64", 64],
  ["complex128", 128],
  ["bfloat16", 16],
  ["float8e4m3fn", 8],
  ["float8e4m3fnuz", 8],
  ["float8e5m2", 8],
  ["float8e5m2fnuz", 8],
  ["uint4", 4],
  ["int4", 4],
  ["float4e2m1", 4],
  ["float8e8m0", 8],
  ["uint2", 2],
  ["int2", 2],
] as const;

/** An element type, named as ONNX Runtime's JavaScript API names it. */
export type TensorType = typeof DTYPES[number][0];

/**
 * The type with this `TensorProto.DataType` code.
 *
 * @throws {Error} when ONNX defines no such code.
 */
export function toDtype(code: number): TensorType {
  const entry = DTYPES[code];
  if (entry === undefined) {
    throw new Error(
      `Element type ${code} is none of ONNX's 0 to ${
        DTYPES.length - 1
      }; is the file damaged or newer?`,
    );
  }
  return entry[0];
}

/** The `TensorProto.DataType` code of a type. */
export function toDtypeCode(dtype: TensorType): number {
  return DTYPES.findIndex(([name]) => name === dtype);
}

/** Bytes that `count` packed elements take; 0 for types without a fixed width. */
export function countElementBytes(dtype: TensorType, count: number): number {
  const bits = DTYPES.find(([name]) => name === dtype)?.[1] ?? 0;
  return Math.ceil((count * bits) / 8);
}

/** How many elements a shape holds. */
export function countElements(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Whether the type counts rather than measures: conditions, indices, lengths. */
export function isIndexDtype(dtype: TensorType): boolean {
  return dtype === "int64" || dtype === "int32" || dtype === "bool";
}
