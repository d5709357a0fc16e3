/**
 * Rows of an embedding table, read from its file on demand.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import type { EmbeddingLookup } from "./embedding_lookup.ts";
import { type ModelFiles, readOpenFile } from "../file/external_data.ts";
import { readStoredBytes } from "../file/stored_range.ts";
import { countStoredBytes, type StoredTensor } from "../file/tensor.ts";

/** Maximum number of bytes of cached rows. */
const CACHE_BYTES = 4 * 2 ** 20;

type FloatRow = Float16Array<ArrayBuffer> | Float32Array<ArrayBuffer>;
/** Copies bytes of one tensor, beginning at `offset`, to `into`. */
type ReadBytes = (offset: number, into: Uint8Array) => void;

/** An embedding table. Its files stay open until it is closed. */
export class EmbeddingTable {
  readonly #lookup: EmbeddingLookup;
  readonly #files = new Map<string, Deno.FsFile>();
  readonly #cache = new Map<number, Uint8Array>();
  #readValues!: ReadBytes;
  #readScales: ReadBytes | undefined;
  #readZeroPoints: ReadBytes | undefined;

  private constructor(lookup: EmbeddingLookup) {
    this.#lookup = lookup;
  }

  /**
   * Opens the table's files.
   *
   * @param files may be closed afterwards.
   * @throws {StartupError} when a file ends before the table does.
   */
  static async open(lookup: EmbeddingLookup, files: ModelFiles): Promise<EmbeddingTable> {
    const table = new EmbeddingTable(lookup);
    try {
      table.#readValues = await table.#open(lookup.values, files);
      if (lookup.quantized) {
        const { scales, zeroPoints } = lookup.quantized;
        table.#readScales = await table.#open(scales, files);
        table.#readZeroPoints = zeroPoints && await table.#open(zeroPoints, files);
      }
    } catch (error) {
      table.close();
      throw error;
    }
    return table;
  }

  /** Bytes of a row in the type in which {@linkcode read} returns it. */
  get rowBytes(): number {
    const { dtype, width } = this.#lookup;
    return width * (dtype === "float16" ? 2 : 4);
  }

  /**
   * Copies the rows of some token ids to `into`, one after the other.
   *
   * @throws {RangeError} when an id is not in the table. @throws {Error} when the file has become shorter.
   */
  read(ids: ArrayLike<bigint>, into: Uint8Array<ArrayBuffer>): void {
    const { numRows } = this.#lookup;
    const { rowBytes } = this;
    for (let i = 0; i < ids.length; i++) {
      const id = Number(ids[i]);
      if (!(id >= 0 && id < numRows)) {
        throw new RangeError(`Token ${id} has no embedding: the table has ${numRows} rows.`);
      }
      into.set(this.#row(id), i * rowBytes);
    }
  }

  close(): void {
    for (const file of this.#files.values()) file.close();
    this.#files.clear();
  }

  #row(id: number): Uint8Array {
    const known = this.#cache.get(id);
    if (known !== undefined) return known;
    const { dtype, values, quantized } = this.#lookup;
    const stored = (quantized?.scales ?? values).dtype;
    const kept = this.#readRow(id, stored === "float16" ? Float16Array : Float32Array);
    const given = stored === dtype ? kept : Float32Array.from(kept);
    const row = new Uint8Array(given.buffer);
    if ((this.#cache.size + 1) * row.length > CACHE_BYTES) {
      const [oldest] = this.#cache.keys();
      if (oldest !== undefined) this.#cache.delete(oldest);
    }
    this.#cache.set(id, row);
    return row;
  }

  /** Reads a row in the table's own type. */
  #readRow(id: number, kind: typeof Float16Array | typeof Float32Array): FloatRow {
    const row = new kind(this.#lookup.width);
    if (this.#lookup.quantized) this.#unpack(id, row);
    else this.#readValues(id * row.byteLength, new Uint8Array(row.buffer));
    return row;
  }

  /** `(value - zeroPoint) * scale` in the table's type, rounded once, as ONNX Runtime's kernel does. */
  #unpack(id: number, row: FloatRow): void {
    const { width, values, quantized } = this.#lookup;
    const { bits, blockSize } = quantized!;
    const numBlocks = Math.ceil(width / blockSize);
    const isSigned = values.dtype === "int4";
    const isPadded = values.dtype === "uint8";
    const kind = row.constructor as new (length: number) => FloatRow;
    const scales = new kind(numBlocks);
    this.#readScales!(id * scales.byteLength, new Uint8Array(scales.buffer));
    const levels = readLevels(this.#readValues, {
      bits,
      isSigned,
      first: id * width,
      count: width,
    });
    const perRow = isPadded ? Math.ceil(numBlocks * bits / 8) * 8 / bits : numBlocks;
    const zeros = this.#readZeroPoints &&
      readLevels(this.#readZeroPoints, { bits, isSigned, first: id * perRow, count: numBlocks });
    const middle = isPadded ? 2 ** (bits - 1) : 0;
    for (let i = 0; i < width; i++) {
      const block = Math.floor(i / blockSize);
      row[i] = (levels[i]! - (zeros?.[block] ?? middle)) * scales[block]!;
    }
  }

  async #open(tensor: StoredTensor, files: ModelFiles): Promise<ReadBytes> {
    const { data } = tensor;
    const path = data.kind === "file" ? await files.resolvePath?.(data.file) : undefined;
    if (data.kind !== "file" || path === undefined) {
      const bytes = await readStoredBytes(tensor, files);
      return (offset, into) => into.set(bytes.subarray(offset, offset + into.length));
    }
    let file = this.#files.get(path);
    if (file === undefined) this.#files.set(path, file = await Deno.open(path));
    const { size } = await file.stat();
    if (data.offset + countStoredBytes(tensor) > size) {
      throw new StartupError(
        `${path} ends at byte ${size}, but the graph needs ${data.length} bytes from ` +
          `${data.offset} on; the download may be incomplete.`,
      );
    }
    return (offset, into) => readOpenFile({ file, path, offset: data.offset + offset }, into);
  }
}

/** Reads packed numbers, the first in the lowest bits of its byte. */
function readLevels(
  read: ReadBytes,
  { bits, isSigned, first, count }: {
    readonly bits: number;
    readonly isSigned: boolean;
    /** Index of the first number. */
    readonly first: number;
    readonly count: number;
  },
): Int16Array {
  const start = Math.floor(first * bits / 8);
  const packed = new Uint8Array(Math.ceil((first + count) * bits / 8) - start);
  read(start, packed);
  const range = 2 ** bits;
  const levels = new Int16Array(count);
  for (let i = 0, at = first % (8 / bits); i < count; i++, at++) {
    const level = packed[(at * bits) >> 3]! >> (at * bits & 7) & (range - 1);
    levels[i] = isSigned && level >= range / 2 ? level - range : level;
  }
  return levels;
}
