/**
 * Constants of a graph: their element types, where their bytes are, and parts of them.
 *
 * @module
 */

/** Name and bits per element of each type, by its `TensorProto.DataType` code; 0 bits for types of no fixed width. */
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

/** Bytes that `count` packed elements take; 0 for types of no fixed width. */
export function countElementBytes(dtype: TensorType, count: number): number {
  const bits = DTYPES.find(([name]) => name === dtype)?.[1] ?? 0;
  return Math.ceil((count * bits) / 8);
}

/** The number of elements that a shape holds. */
export function countElements(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Whether a type is used for indices, lengths and conditions. */
export function isIndexDtype(dtype: TensorType): boolean {
  return dtype === "int64" || dtype === "int32" || dtype === "bool";
}

/** The location of a stored tensor's bytes, which are little-endian and row-major. */
export type TensorBytes =
  | { readonly kind: "memory"; readonly bytes: Uint8Array }
  /** `file` is relative to the folder of the graph. */
  | {
    readonly kind: "file";
    readonly file: string;
    readonly offset: number;
    readonly length: number;
  }
  /** Each row consists of parts of the same row of several constants, side by side. */
  | {
    readonly kind: "rows";
    readonly numRows: number;
    readonly parts: readonly {
      readonly source: StoredTensor;
      /** Bytes of the source's row before the part. */
      readonly from: number;
      readonly length: number;
    }[];
    /** Bytes of all rows. */
    readonly length: number;
  }
  /** The elements of a constant of float16 or bfloat16 as float32. */
  | { readonly kind: "widened"; readonly source: StoredTensor; readonly length: number }
  /** The transpose of a constant of bytes, each of them XOR `flip`. */
  | {
    readonly kind: "transposed";
    /** `[numColumns, numRows]`. */
    readonly source: StoredTensor;
    readonly numRows: number;
    readonly numColumns: number;
    readonly flip: number;
    readonly length: number;
  }
  /** For each byte of the source, the table entries of its two halves, the upper half first. */
  | {
    readonly kind: "looked_up";
    readonly source: StoredTensor;
    /** Sixteen bytes. */
    readonly table: Uint8Array;
    readonly length: number;
  }
  /** Computed from other constants when it is read. */
  | {
    readonly kind: "computed";
    readonly sources: readonly StoredTensor[];
    /** Fills `into`, `length` bytes, from the sources' bytes. */
    readonly compute: (sources: readonly Uint8Array[], into: Uint8Array) => void;
    readonly length: number;
  };

/** A constant of a graph, in memory or in files. */
export interface StoredTensor {
  readonly name: string;
  readonly dtype: TensorType;
  readonly shape: readonly number[];
  readonly data: TensorBytes;
}

/** The number of bytes of a constant. */
export function countStoredBytes({ data }: StoredTensor): number {
  return data.kind === "memory" ? data.bytes.length : data.length;
}

/**
 * Takes rows `from` to `to` of a tensor with `numRows` rows; `undefined` if they are not a range of the tensor's bytes.
 */
export function sliceRows<Stored extends StoredTensor>(
  tensor: Stored,
  { numRows, from, to }: { readonly numRows: number; readonly from: number; readonly to: number },
): Stored | undefined {
  const { data, name, shape: [first = 0, ...rest] } = tensor;
  const rowBytes = countStoredBytes(tensor) / numRows;
  if (first % numRows !== 0 || !Number.isInteger(rowBytes)) return;
  if (data.kind !== "file" && data.kind !== "memory") return;
  const [offset, length] = [from * rowBytes, (to - from) * rowBytes];
  return {
    ...tensor,
    name: `${name}/rows ${from} to ${to}`,
    shape: [(to - from) * (first / numRows), ...rest],
    data: data.kind === "file"
      ? { ...data, offset: data.offset + offset, length }
      : { kind: "memory", bytes: data.bytes.subarray(offset, offset + length) },
  };
}

/** Takes columns `from` to `to` of a matrix `[rows, columns]`. Columns past the matrix's last one are zero. */
export function sliceColumns<Stored extends StoredTensor>(
  tensor: Stored,
  { from, to }: { readonly from: number; readonly to: number },
): Stored {
  const { name, dtype, shape: [numRows = 1, numColumns = 1] } = tensor;
  const bytesPerColumn = countStoredBytes(tensor) / numRows / numColumns;
  const end = Math.min(to, numColumns);
  const own = {
    source: tensor,
    from: from * bytesPerColumn,
    length: (end - from) * bytesPerColumn,
  };
  const padding = (to - end) * bytesPerColumn;
  const bytes = new Uint8Array(countElementBytes(dtype, numRows * (to - end)));
  const zeros: StoredTensor = {
    name: `${name}/zeros`,
    dtype,
    shape: [numRows, to - end],
    data: { kind: "memory", bytes },
  };
  return {
    ...tensor,
    name: `${name}/columns ${from} to ${to}`,
    shape: [numRows, to - from],
    data: {
      kind: "rows",
      numRows,
      parts: padding > 0 ? [own, { source: zeros, from: 0, length: padding }] : [own],
      length: numRows * (own.length + padding),
    },
  };
}
