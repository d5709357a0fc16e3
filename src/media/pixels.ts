/**
 * Images as pixels in memory, with alpha or without, and the per-pixel kernels in WebAssembly SIMD, whose sources are
 * in `wasm/`.
 *
 * @module
 */
// Imported as text, since `deno compile` cannot embed a module imported as source.
import binary from "./pixel_simd.wasm.base64" with { type: "text" };

/** Number of channels: 1 for grey, 2 for grey and alpha, 3 for RGB, 4 for RGBA. */
export type Channels = 1 | 2 | 3 | 4;

/**
 * A decoded image: rows from the top, pixels from the left, channels interleaved; alpha is straight, not premultiplied.
 */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly channels: Channels;
  /** u8 `[height, width, channels]`. */
  readonly data: Uint8Array<ArrayBuffer>;
}

/** Addresses and lengths are in bytes. Each kernel's source says how far it reads and writes beyond its buffers. */
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

/** Bytes that are processed at a time; they fit into a core's cache. */
export const BAND_BYTES = 2 ** 17;

const PAGE_BYTES = 2 ** 16;
/** Maximum number of bytes that a kernel reads or writes before or after the buffers it is given. */
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

/** A part of an image in whole pixels. */
type Box = readonly [left: number, top: number, right: number, bottom: number];

/** Number of pixels by which an image is widened on each side. */
interface Margins {
  readonly left?: number;
  readonly top?: number;
  readonly right?: number;
  readonly bottom?: number;
}

/**
 * Copies the part of an image within a box. Pixels of the box outside the image become 0.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * const row = { width: 3, height: 1, channels: 1, data: Uint8Array.of(7, 8, 9) } as const;
 * assert.deepEqual([...crop(row, [1, 0, 4, 1]).data], [8, 9, 0]);
 * ```
 */
export function crop(pixels: Pixels, [left, top, right, bottom]: Box): Pixels {
  const { width, height } = pixels;
  return pad(pixels, { left: -left, top: -top, right: right - width, bottom: bottom - height });
}

/**
 * Copies the middle of an image, half a pixel further left and up if the margin is odd. Smaller images get a border of
 * 0.
 */
export function centerCrop(
  pixels: Pixels,
  { width, height }: { width: number; height: number },
): Pixels {
  const left = Math.floor((pixels.width - width) / 2);
  const top = Math.floor((pixels.height - height) / 2);
  return crop(pixels, [left, top, left + width, top + height]);
}

/**
 * Copies an image and widens it by a border of 0; negative margins crop it.
 *
 * @throws {RangeError} when a margin is not an integer or nothing would be left.
 */
export function pad(
  pixels: Pixels,
  { left = 0, top = 0, right = 0, bottom = 0 }: Margins,
): Pixels {
  const { channels } = pixels;
  const width = pixels.width + left + right;
  const height = pixels.height + top + bottom;
  if (![left, top, width, height].every(Number.isInteger) || width < 1 || height < 1) {
    throw new RangeError(`An image cannot be cropped or padded to ${width} × ${height} pixels.`);
  }
  const data = new Uint8Array(width * height * channels);
  const firstColumn = Math.max(0, -left);
  const endColumn = Math.min(pixels.width, width - left);
  const endRow = Math.min(pixels.height, height - top);
  for (let row = Math.max(0, -top); row < endRow && firstColumn < endColumn; row++) {
    const from = row * pixels.width;
    data.set(
      pixels.data.subarray((from + firstColumn) * channels, (from + endColumn) * channels),
      ((row + top) * width + firstColumn + left) * channels,
    );
  }
  return { width, height, channels, data };
}

const BAND_PIXELS = BAND_BYTES / 4;

/**
 * Converts straight alpha to premultiplied, rounded as in Pillow. Do this before an image is resized: otherwise
 * transparent pixels would lend their colour to their neighbours. The last of 2 or 4 channels is alpha. Opaque RGBA is
 * returned unchanged.
 */
export function premultiply(pixels: Pixels): Pixels {
  if (pixels.channels === 4 && isOpaque(pixels)) return pixels;
  const { channels } = pixels;
  const data = pixels.data.slice();
  for (let alphaAt = channels - 1; alphaAt < data.length; alphaAt += channels) {
    const alpha = data[alphaAt]!;
    if (alpha === 255) continue;
    for (let i = alphaAt - channels + 1; i < alphaAt; i++) {
      const product = data[i]! * alpha + 128;
      data[i] = ((product >> 8) + product) >> 8;
    }
  }
  return { ...pixels, data };
}

/**
 * Converts premultiplied alpha to straight. The last of 2 or 4 channels is alpha. Opaque RGBA is returned unchanged.
 */
export function unpremultiply(pixels: Pixels): Pixels {
  if (pixels.channels === 4 && isOpaque(pixels)) return pixels;
  const { channels } = pixels;
  const data = pixels.data.slice();
  for (let alphaAt = channels - 1; alphaAt < data.length; alphaAt += channels) {
    const alpha = data[alphaAt]!;
    if (alpha === 0 || alpha === 255) continue;
    for (let i = alphaAt - channels + 1; i < alphaAt; i++) {
      data[i] = Math.min(255, Math.trunc(255 * data[i]! / alpha));
    }
  }
  return { ...pixels, data };
}

/** Drops the alpha channel of an opaque image, reusing its memory. Other images are returned unchanged. */
export function dropOpaqueAlpha(pixels: Pixels): Pixels {
  if (pixels.channels !== 4 || !isOpaque(pixels)) return pixels;
  const { width, height, data } = pixels;
  const room = new PixelRoom();
  const input = room.reserve(4 * BAND_PIXELS);
  const output = room.reserve(3 * BAND_PIXELS);
  using memory = room.open();
  const { kernels, bytes } = memory;
  const end = width * height;
  for (let pixel = 0; pixel < end; pixel += BAND_PIXELS) {
    const numPixels = Math.min(BAND_PIXELS, end - pixel);
    bytes.set(data.subarray(4 * pixel, 4 * (pixel + numPixels)), input);
    kernels.dropAlpha(input, numPixels, output);
    data.set(bytes.subarray(output, output + 3 * numPixels), 3 * pixel);
  }
  return { width, height, channels: 3, data: data.subarray(0, 3 * end) };
}

/** Whether every pixel of an RGBA image is opaque. */
export function isOpaque({ data }: Pixels): boolean {
  const room = new PixelRoom();
  const input = room.reserve(4 * BAND_PIXELS);
  using memory = room.open();
  const { kernels, bytes } = memory;
  for (let at = 0; at < data.length; at += 4 * BAND_PIXELS) {
    const band = data.subarray(at, at + 4 * BAND_PIXELS);
    bytes.set(band, input);
    // The kernel also reads these bytes beyond the last pixel.
    bytes.fill(255, input + band.length, input + band.length + 12);
    if (!kernels.isOpaque(input, band.length / 4)) return false;
  }
  return true;
}

/** Composites an image on white: 2 channels become 1, 4 become 3. An image without alpha is returned unchanged. */
export function compositeOnWhite(pixels: Pixels): Pixels {
  const { width, height, channels, data } = pixels;
  if (channels % 2 === 1) return pixels;
  const numColors = channels - 1;
  const opaque = new Uint8Array(width * height * numColors);
  for (let from = 0, to = 0; to < opaque.length; from += channels) {
    const alpha = data[from + numColors]!;
    for (let color = 0; color < numColors; color++) {
      opaque[to++] = Math.round((data[from + color]! * alpha + 255 * (255 - alpha)) / 255);
    }
  }
  return { width, height, channels: numColors as 1 | 3, data: opaque };
}

/** Converts an image to RGBA. An RGBA image is returned unchanged. */
export function toRgba(pixels: Pixels): Pixels {
  const { width, height, channels, data: from } = pixels;
  if (channels === 4) return pixels;
  const data = new Uint8Array(4 * width * height);
  const words = new Uint32Array(data.buffer);
  const [green, blue] = channels === 3 ? [1, 2] : [0, 0];
  // Writing words is twice as fast as writing bytes. Every machine that Deno runs on is little-endian.
  for (let pixel = 0, at = 0; pixel < words.length; pixel++, at += channels) {
    const alpha = channels === 2 ? from[at + 1]! : 255;
    words[pixel] = from[at]! | from[at + green]! << 8 | from[at + blue]! << 16 | alpha << 24;
  }
  return { width, height, channels: 4, data };
}
