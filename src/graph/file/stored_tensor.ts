/**
 * A constant of a graph, and where its bytes are.
 *
 * @module
 */
import type { TensorType } from "./dtype.ts";

/** Where the bytes of a stored tensor are, little-endian, row-major. */
export type TensorBytes =
  | { readonly kind: "memory"; readonly bytes: Uint8Array }
  /** `file` is relative to the folder of the graph. */
  | {
    readonly kind: "file";
    readonly file: string;
    readonly offset: number;
    readonly length: number;
  }
  /** Each row is the same row of several constants side by side, or parts of those. */
  | {
    readonly kind: "rows";
    readonly numRows: number;
    readonly parts: readonly {
      readonly source: StoredTensor;
      /** Bytes before the part in a row of the source. */
      readonly from: number;
      readonly length: number;
    }[];
    /** Length of all rows. */
    readonly length: number;
  }
  /** Elements of a float16 constant, as float32. */
  | { readonly kind: "widened"; readonly source: StoredTensor; readonly length: number }
  /** The transpose of a constant of bytes, with the bits of `flip` inverted in each. */
  | {
    readonly kind: "transposed";
    /** `[numColumns, numRows]`. */
    readonly source: StoredTensor;
    readonly numRows: number;
    readonly numColumns: number;
    readonly flip: number;
    readonly length: number;
  }
  /** Table entries for each half of a source's bytes, the upper half first. */
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

/** A constant of the graph. */
export interface StoredTensor {
  readonly name: string;
  readonly dtype: TensorType;
  readonly shape: readonly number[];
  readonly data: TensorBytes;
}

/** Bytes that a stored tensor takes. */
export function storedBytes({ data }: StoredTensor): number {
  return data.kind === "memory" ? data.bytes.length : data.length;
}
