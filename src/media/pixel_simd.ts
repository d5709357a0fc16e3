/**
 * What is done to every pixel of a picture, in WebAssembly SIMD; the sources are in `wasm/`.
 *
 * @module
 */
// As text, since deno compile embeds no module that is imported by its source.
import binary from "./pixel_simd.wasm.base64" with { type: "text" };

/** Addresses and lengths are in bytes; each kernel says in its source what it reads and writes beyond them. */
export interface PixelKernels {
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
  compositeRgba(pixels: number, mask: number, numPixels: number): void;
}

/** The kernels and the memory they work on. */
export interface PixelMemory {
  readonly kernels: PixelKernels;
  readonly buffer: ArrayBuffer;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** As much as is worked on at a time stays in a core's cache. */
export const BAND_BYTES = 2 ** 17;

const PAGE_BYTES = 2 ** 16;
/** No kernel goes further beyond what it is given, on either side. */
const MARGIN_BYTES = 64;
/** A memory never shrinks: a larger one is not kept. */
const MAX_KEPT_BYTES = 16 * 2 ** 20;

const module = new WebAssembly.Module(Uint8Array.fromBase64(binary));
let kept: PixelMemory | undefined;

/**
 * Hands out addresses, then a memory that has them. It is this thread's only one: what is in it lasts until the next is
 * opened, and may be anything at first.
 */
export class PixelRoom {
  #end = MARGIN_BYTES;

  /** Room for so many bytes, at a multiple of 16, with a margin on both sides. */
  reserve(numBytes: number): number {
    const at = this.#end;
    this.#end += Math.ceil((numBytes + MARGIN_BYTES) / 16) * 16;
    return at;
  }

  /** @throws {RangeError} when so much memory cannot be had. */
  open(): PixelMemory {
    if (kept !== undefined && kept.buffer.byteLength >= this.#end) return kept;
    const memory = createMemory(Math.ceil(this.#end / PAGE_BYTES));
    if (memory.buffer.byteLength <= MAX_KEPT_BYTES) kept = memory;
    return memory;
  }
}

function createMemory(pages: number): PixelMemory {
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
  const instance = new WebAssembly.Instance(module, { env: { memory } });
  const kernels = instance.exports as unknown as PixelKernels;
  const buffer = memory.buffer as ArrayBuffer;
  return { kernels, buffer, bytes: new Uint8Array(buffer) };
}
