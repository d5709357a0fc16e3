/**
 * Reads constants: whole, in parts if they are too large for memory, or row by row.
 *
 * @module
 */
import { widenBfloat16, widenBytes } from "../../../kernels/common/floats.ts";
import { type ModelFiles, readOpenFile } from "./external_data.ts";
import {
  countElementBytes,
  countStoredBytes,
  type StoredTensor,
  type TensorBytes,
  type TensorType,
} from "./tensor.ts";
import { StartupError } from "../../base/errors.ts";

/** Bytes of a source that are read at a time, unless one of its rows is longer. */
const CHUNK_BYTES = 8 * 2 ** 20;

/** The files and the offset from which bytes are read, and scratch memory. */
interface RangeSource {
  readonly files: ModelFiles;
  readonly offset: number;
  /**
   * Memory for intermediate results, which calls can share. It grows to some MiB. If absent, new memory is allocated.
   */
  readonly scratch?: { bytes: Uint8Array } | undefined;
}

type Rows = Extract<TensorBytes, { kind: "rows" }>;

/**
 * Fills `into` with the bytes of a constant, beginning at `offset`. Offset and length must be whole numbers of
 * elements. A computed constant is computed completely at each call.
 *
 * @throws {StartupError} when a file is shorter or cannot be read.
 */
export async function readRange(
  { data }: StoredTensor,
  { files, offset, scratch }: RangeSource,
  into: Uint8Array,
): Promise<void> {
  const { length } = into;
  if (data.kind === "memory") into.set(data.bytes.subarray(offset, offset + length));
  else if (data.kind === "file") await files.read(data.file, data.offset + offset, into);
  else if (data.kind === "rows") await readRows(data, { files, offset, scratch }, into);
  else if (data.kind === "widened") {
    const halves = new Uint8Array(length / 2);
    await readRange(data.source, { files, offset: offset / 2, scratch }, halves);
    widen(data.source.dtype, halves, into);
  } else if (data.kind === "transposed") {
    await readTransposed(data, { files, offset, scratch }, into);
  } else if (data.kind === "looked_up") {
    const first = offset >> 1;
    const codes = new Uint8Array(((offset + length + 1) >> 1) - first);
    await readRange(data.source, { files, offset: first, scratch }, codes);
    for (let i = 0; i < length; i++) {
      const byte = codes[((offset + i) >> 1) - first]!;
      into[i] = data.table[(offset + i) % 2 === 0 ? byte >> 4 : byte & 15]!;
    }
  } else {
    const isWhole = length === data.length;
    const whole = isWhole ? into : new Uint8Array(data.length);
    const sources: Uint8Array[] = [];
    for (const source of data.sources) sources.push(await readStoredBytes(source, files));
    data.compute(sources, whole);
    if (!isWhole) into.set(whole.subarray(offset, offset + length));
  }
}

/** Widens a constant of float16 or bfloat16 to float32: now if it is in memory, otherwise when it is read. */
export function widenTensor<Stored extends StoredTensor>(tensor: Stored): Stored {
  const length = 2 * countStoredBytes(tensor);
  const { dtype, data } = tensor;
  if (data.kind !== "memory") {
    return { ...tensor, dtype: "float32", data: { kind: "widened", source: tensor, length } };
  }
  const bytes = new Uint8Array(length);
  widen(dtype, data.bytes, bytes);
  return { ...tensor, dtype: "float32", data: { kind: "memory", bytes } };
}

function widen(dtype: TensorType, halves: Uint8Array, into: Uint8Array): void {
  if (dtype === "bfloat16") widenBfloat16(halves, into);
  else widenBytes(halves, into);
}

/** Reads all bytes of a constant. If they are already in memory, they are not copied. */
export async function readStoredBytes(
  tensor: StoredTensor,
  files: ModelFiles,
): Promise<Uint8Array> {
  if (tensor.data.kind === "memory") return tensor.data.bytes;
  const bytes = new Uint8Array(tensor.data.length);
  await readRange(tensor, { files, offset: 0 }, bytes);
  return bytes;
}

/** Reads the elements of a constant of float32 or float16, such as a table of angles. */
export async function readFloats(tensor: StoredTensor, files: ModelFiles): Promise<Float32Array> {
  const { name, dtype } = tensor;
  // A copy, because the bytes may begin at an unaligned address.
  const { buffer } = (await readStoredBytes(tensor, files)).slice();
  if (dtype === "float32") return new Float32Array(buffer);
  if (dtype === "float16") return Float32Array.from(new Float16Array(buffer));
  throw new Error(
    `The constant "${name}" is ${dtype}; rotary tables and sinks are float32 or float16.`,
  );
}

/**
 * Reads whole rows, as many at a time as a chunk holds, but at least one. Incomplete rows at the ends of `into`, and
 * the only row of a constant, are read directly into it.
 */
async function readRows(
  { parts, numRows, length }: Rows,
  { files, offset, scratch = { bytes: new Uint8Array(0) } }: RangeSource,
  into: Uint8Array,
): Promise<void> {
  const rowBytes = length / numRows;
  const widest = Math.max(...parts.map(({ source }) => countStoredBytes(source) / numRows));
  const rowsAtOnce = Math.max(1, Math.floor(CHUNK_BYTES / widest));
  for (let done = 0; done < into.length;) {
    const at = offset + done;
    const row = Math.floor(at / rowBytes);
    const start = at - row * rowBytes;
    const count = Math.min(rowsAtOnce, Math.floor((into.length - done) / rowBytes));
    const isWhole = start === 0 && count > 0 && numRows > 1;
    const size = isWhole ? count * rowBytes : Math.min(rowBytes - start, into.length - done);
    const target = into.subarray(done, done + size);
    if (isWhole) {
      await readWholeRows(parts, { files, row, count, numRows, rowBytes, scratch }, target);
    } else await readPartOfRow(parts, { files, row, start, numRows }, target);
    done += size;
  }
}

async function readWholeRows(
  parts: Rows["parts"],
  { files, row, count, numRows, rowBytes, scratch }: {
    readonly files: ModelFiles;
    readonly row: number;
    readonly count: number;
    readonly numRows: number;
    readonly rowBytes: number;
    readonly scratch: { bytes: Uint8Array };
  },
  into: Uint8Array,
): Promise<void> {
  let column = 0;
  for (const { source, from, length } of parts) {
    const sourceBytes = countStoredBytes(source) / numRows;
    const size = count * sourceBytes;
    if (scratch.bytes.length < size) scratch.bytes = new Uint8Array(size);
    const chunk = scratch.bytes.subarray(0, size);
    await readRange(source, { files, offset: row * sourceBytes }, chunk);
    for (let i = 0; i < count; i++) {
      const start = i * sourceBytes + from;
      into.set(chunk.subarray(start, start + length), i * rowBytes + column);
    }
    column += length;
  }
}

async function readPartOfRow(
  parts: Rows["parts"],
  { files, row, start, numRows }: {
    readonly files: ModelFiles;
    readonly row: number;
    readonly start: number;
    readonly numRows: number;
  },
  into: Uint8Array,
): Promise<void> {
  let column = 0;
  for (const { source, from, length } of parts) {
    const [first, end] = [Math.max(start, column), Math.min(start + into.length, column + length)];
    if (first < end) {
      const offset = row * (countStoredBytes(source) / numRows) + from + first - column;
      await readRange(source, { files, offset }, into.subarray(first - start, end - start));
    }
    column += length;
  }
}

/** How many columns are transposed together, so that both reads and writes access adjacent bytes. */
const COLUMNS_AT_ONCE = 64;

/** Reads a part of a transposed constant, some of its columns at a time. A column is a row of the source. */
async function readTransposed(
  { source, numRows, numColumns, flip }: Extract<TensorBytes, { kind: "transposed" }>,
  { files, offset, scratch = { bytes: new Uint8Array(0) } }: RangeSource,
  into: Uint8Array,
): Promise<void> {
  const first = Math.floor(offset / numColumns);
  const count = Math.ceil((offset + into.length) / numColumns) - first;
  const size = COLUMNS_AT_ONCE * count;
  if (scratch.bytes.length < size) scratch.bytes = new Uint8Array(size);
  const levels = scratch.bytes;
  for (let column = 0; column < numColumns; column += COLUMNS_AT_ONCE) {
    const width = Math.min(COLUMNS_AT_ONCE, numColumns - column);
    for (let i = 0; i < width; i++) {
      const from = (column + i) * numRows + first;
      await readRange(source, { files, offset: from }, levels.subarray(i * count, (i + 1) * count));
    }
    for (let row = 0; row < count; row++) {
      const at = (first + row) * numColumns + column - offset;
      const [start, end] = [Math.max(0, -at), Math.min(width, into.length - at)];
      for (let i = start; i < end; i++) into[at + i] = levels[i * count + row]! ^ flip;
    }
  }
}

/**
 * Reads single rows of a matrix of f32, or of f16 or bf16 that is widened to f32, from its file. A table of angles may
 * have hundreds of MiB, of which a step needs a few rows.
 */
export class RowFile implements Disposable {
  readonly #source: { readonly file: Deno.FsFile; readonly path: string };
  readonly #offset: number;
  /** The row that was read last. */
  readonly #row: Float32Array<ArrayBuffer>;
  /** The same row in the file's element type. */
  readonly #stored: Uint8Array<ArrayBuffer>;
  readonly #dtype: TensorType;

  private constructor(
    source: { readonly file: Deno.FsFile; readonly path: string },
    { offset, width, dtype }: {
      readonly offset: number;
      readonly width: number;
      readonly dtype: TensorType;
    },
  ) {
    this.#source = source;
    this.#offset = offset;
    this.#row = new Float32Array(width);
    this.#stored = new Uint8Array(countElementBytes(dtype, width));
    this.#dtype = dtype;
  }

  /** Whether a constant can be read row by row. */
  static canRead({ dtype, data }: StoredTensor): boolean {
    return dtype === "float32" && findSource(data).kind === "file";
  }

  /** @throws {StartupError} when the constant is not stored in a file. */
  static async open(
    { data, dtype: own, shape }: StoredTensor,
    files: ModelFiles,
  ): Promise<RowFile> {
    const source = findSource(data);
    const dtype = data.kind === "widened" ? data.source.dtype : own;
    if (source.kind !== "file" || files.resolvePath === undefined) {
      throw new StartupError("Rows can only be read from a table that is stored in a file.");
    }
    const path = await files.resolvePath(source.file);
    const file = await Deno.open(path);
    const [{ offset }, width] = [source, shape.at(-1)!];
    return new RowFile({ file, path }, { offset, width, dtype });
  }

  /**
   * A row by its number.
   *
   * @returns f32 `[width]`, valid until the next row is read.
   * @throws {Error} when the file has become shorter.
   */
  read(row: number): Float32Array {
    const bytes = this.#stored;
    const { file, path } = this.#source;
    readOpenFile({ file, path, offset: this.#offset + row * bytes.length }, bytes);
    const widened = new Uint8Array(this.#row.buffer);
    if (this.#dtype === "float32") widened.set(bytes);
    else if (this.#dtype === "bfloat16") widenBfloat16(bytes, widened);
    else this.#row.set(new Float16Array(bytes.buffer));
    return this.#row;
  }

  [Symbol.dispose](): void {
    this.#source.file.close();
  }
}

/** Finds where the bytes of a constant are stored, before widening. */
function findSource(data: TensorBytes): TensorBytes {
  return data.kind === "widened" ? data.source.data : data;
}
