/**
 * Reads PNG files (ISO/IEC 15948) of every colour type and bit depth, with the platform's zlib.
 *
 * @module
 */
import { crc32, inflateSync } from "node:zlib";
import { joinBytes } from "../../base/join_bytes.ts";
import { BAND_BYTES, PixelRoom } from "../pixel_simd.ts";
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, invalidImage, viewData } from "./format.ts";
import { hasText } from "../signature.ts";
import { expandPng, listPasses, PNG_SAMPLES, type PngPass, readPngHeader } from "./png_expand.ts";
import { readExifOrientation } from "./tiff_tags.ts";

interface Chunk {
  readonly type: string;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly checksum: number;
}

/** Most chunks: the largest images have a tenth of this, a hostile file may have millions. */
const MAX_CHUNKS = 2 ** 16;
/** No deflate stream grows by more than this. */
const MAX_DEFLATE_RATIO = 1032;

/** PNG. Of an animation, the first image. */
export const PNG: ImageFormat = {
  name: "PNG",
  matches: (file) => hasText(file, 0, "\x89PNG\r\n\x1a\n"),
  readSize,
  decode,
};

function readSize(file: Uint8Array<ArrayBuffer>): ImageSize {
  const { width, height } = readPngHeader(file);
  const exif = readChunks(file).find(({ type }) => type === "eXIf");
  return { width, height, orientation: exif === undefined ? 1 : readExifOrientation(exif.data) };
}

/** Reads the chunks up to the end of the image or of the file; a truncated chunk is skipped. */
function readChunks(file: Uint8Array<ArrayBuffer>): Chunk[] {
  const view = viewData(file);
  const chunks: Chunk[] = [];
  for (let at = 8; at + 12 <= file.length;) {
    const length = view.getUint32(at);
    const type = String.fromCharCode(...file.subarray(at + 4, at + 8));
    const end = at + 8 + length;
    if (end + 4 > file.length) break;
    if (chunks.length === MAX_CHUNKS) {
      throw invalidImage(`The PNG file has more than ${MAX_CHUNKS} chunks.`);
    }
    chunks.push({ type, data: file.subarray(at + 8, end), checksum: view.getUint32(end) });
    if (type === "IEND") break;
    at = end + 4;
  }
  return chunks;
}

function decode(file: Uint8Array<ArrayBuffer>): Pixels {
  const header = readPngHeader(file);
  const chunks = readChunks(file);
  const packed: Uint8Array<ArrayBuffer>[] = [];
  let palette: Uint8Array | undefined;
  let transparency: Uint8Array | undefined;
  for (const chunk of chunks) {
    if (!["IHDR", "PLTE", "tRNS", "IDAT"].includes(chunk.type)) continue;
    check(chunk);
    if (chunk.type === "PLTE") palette ??= chunk.data;
    if (chunk.type === "tRNS") transparency ??= chunk.data;
    if (chunk.type === "IDAT") packed.push(chunk.data);
  }
  const passes = listPasses(header);
  const rows = inflate(packed, passes);
  const pixelBytes = Math.max(1, PNG_SAMPLES[header.colorType] * header.depth / 8);
  let start = 0;
  let to = 0;
  for (const pass of passes) {
    unfilter(rows, { pass, start, to, pixelBytes });
    start += pass.height * (pass.rowBytes + 1);
    to += pass.height * pass.rowBytes;
  }
  return expandPng({ header, passes, rows, palette, transparency });
}

function check({ type, data, checksum }: Chunk): void {
  if (crc32(data, crc32(type)) === checksum) return;
  throw invalidImage(`The PNG file is damaged: the checksum of its ${type} chunk is wrong.`);
}

/** Decompresses the filtered rows of all passes; each row begins with the number of its filter. */
function inflate(
  packed: readonly Uint8Array<ArrayBuffer>[],
  passes: readonly PngPass[],
): Uint8Array<ArrayBuffer> {
  const wanted = passes.reduce((sum, { height, rowBytes }) => sum + height * (rowBytes + 1), 0);
  const numBytes = packed.reduce((sum, { length }) => sum + length, 0);
  if (numBytes * MAX_DEFLATE_RATIO < wanted) {
    throw invalidImage("The PNG file is cut off, or its header gives a wrong size.");
  }
  // One buffer of the whole size avoids joining small ones.
  const rows = inflateSync(joinBytes(packed), {
    maxOutputLength: wanted,
    chunkSize: Math.max(64, wanted),
  });
  if (rows.length < wanted) {
    throw invalidImage("The PNG file has fewer pixels than its header says.");
  }
  return new Uint8Array(rows.buffer as ArrayBuffer, rows.byteOffset, rows.length);
}

/** Offsets of a pass in its input and output. */
interface PassRange {
  readonly pass: PngPass;
  /** Offset of its first row, which begins with the number of its filter. */
  readonly start: number;
  /** Offset to which its rows are written, without filter numbers between them; at most `start`. */
  readonly to: number;
  readonly pixelBytes: number;
}

/**
 * Undoes the filters of a pass.
 *
 * @throws {HearthError} `invalid_media` when a filter does not exist.
 */
function unfilter(rows: Uint8Array, { pass, start, to, pixelBytes }: PassRange): void {
  const { height, rowBytes } = pass;
  const storedBytes = rowBytes + 1;
  const bandRows = Math.max(1, Math.floor(BAND_BYTES / storedBytes));

  const room = new PixelRoom();
  const input = room.reserve(bandRows * storedBytes);
  // The last row of a band is kept as the row above the next band.
  const above = room.reserve((bandRows + 1) * rowBytes);
  using memory = room.open();
  const { kernels, bytes } = memory;
  bytes.fill(0, above, above + rowBytes);

  for (let row = 0; row < height; row += bandRows) {
    const numRows = Math.min(bandRows, height - row);
    const from = start + row * storedBytes;
    bytes.set(rows.subarray(from, from + numRows * storedBytes), input);
    for (let i = 0; i < numRows; i++) {
      const at = input + i * storedBytes;
      const rowAbove = above + i * rowBytes;
      const filter = bytes[at]!;
      const isKnown = kernels.unfilterRow(
        filter,
        at + 1,
        rowAbove,
        rowAbove + rowBytes,
        rowBytes,
        pixelBytes,
      );
      if (isKnown) continue;
      throw invalidImage(`The PNG file is damaged: no row filter has the number ${filter}.`);
    }
    const first = above + rowBytes;
    const end = first + numRows * rowBytes;
    rows.set(bytes.subarray(first, end), to + row * rowBytes);
    bytes.copyWithin(above, end - rowBytes, end);
  }
}
