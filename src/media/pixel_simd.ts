/**
 * Per-pixel kernels in WebAssembly SIMD; the sources are in `wasm/`.
 *
 * @module
 */
// Imported as text, since `deno compile` cannot embed a module imported as source.
import binary from "./pixel_simd.wasm.base64" with { type: "text" };

/** Addresses and lengths are in bytes. Each kernel's source says what it reads and writes beyond them. */
interface PixelKernels {
  /** Returns 1 or 0. */
  isOpaque(pixels: number, numPixels: number): number;
  dropAlpha(pixels: number, numPixels: number, output: number): void;
  shrinkRows(
    input: number,
    inputBytes: number,
    numRows: number,
    channels: number,
    output: number,
    numOutputs: number,
    spans: number,
    weights: number,
    stride: number,
  ): void;
  addRows(rows: number, rowBytes: number, numPairs: number, weights: number, sums: number): void;
  clipRow(sums: number, numBytes: number, output: number): void;
  filterRows(
    input: number,
    rowBytes: number,
    numRows: number,
    channels: number,
    output: number,
  ): void;
  sumBytes(checksum: number, at: number, numBytes: number): number;
  /** Returns 1, or 0 if there is no such filter. */
  unfilterRow(
    filter: number,
    input: number,
    above: number,
    output: number,
    rowBytes: number,
    pixelBytes: number,
  ): number;
  mixRows(
    above: number,
    upper: number,
    below: number,
    lower: number,
    numPixels: number,
    output: number,
  ): void;
  compositeRgb(colors: number, mask: number, numPixels: number, output: number): void;
  compositeRgba(pixels: number, mask: number, numPixels: number, output: number): void;
}

/** The kernels and their memory. The caller disposes of it, and must not read the memory afterwards. */
export interface PixelMemory extends Disposable {
  readonly kernels: PixelKernels;
  readonly buffer: ArrayBuffer;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Number of bytes processed at a time, so that they stay in a core's cache. */
export const BAND_BYTES = 2 ** 17;

const PAGE_BYTES = 2 ** 16;
/** Most bytes that a kernel reads or writes before or after its arguments. */
const MARGIN_BYTES = 64;
/** A larger memory is not reused, since memory never shrinks. */
const MAX_KEPT_BYTES = 16 * 2 ** 20;

const module = new WebAssembly.Module(Uint8Array.fromBase64(binary));
let kept: PixelMemory | undefined;

/** Assigns addresses, then allocates a memory that contains them all. */
export class PixelRoom {
  #end = MARGIN_BYTES;

  /** Reserves bytes at a multiple of 16, with a margin before and after. */
  reserve(numBytes: number): number {
    const at = this.#end;
    this.#end += Math.ceil((numBytes + MARGIN_BYTES) / 16) * 16;
    return at;
  }

  /**
   * @returns a memory with undefined content.
   * @throws {RangeError} when the memory cannot be allocated.
   */
  open(): PixelMemory {
    const memory = kept;
    if (memory === undefined || memory.buffer.byteLength < this.#end) return create(this.#end);
    kept = undefined;
    return memory;
  }
}

function create(numBytes: number): PixelMemory {
  const pages = Math.ceil(numBytes / PAGE_BYTES);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
  const instance = new WebAssembly.Instance(module, { env: { memory } });
  const buffer = memory.buffer as ArrayBuffer;
  const opened: PixelMemory = {
    kernels: instance.exports as unknown as PixelKernels,
    buffer,
    bytes: new Uint8Array(buffer),
    [Symbol.dispose]() {
      const keptBytes = kept?.buffer.byteLength ?? 0;
      if (buffer.byteLength > keptBytes && buffer.byteLength <= MAX_KEPT_BYTES) kept = opened;
    },
  };
  return opened;
}
