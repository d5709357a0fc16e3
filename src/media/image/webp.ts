/**
 * Reads WebP files (RFC 9649) with libwebp.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { WebPModule } from "@jsquash/webp/codec/dec/webp_dec.js";
import { pad, type Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, WasmImageDecoder } from "./format.ts";
import { findOrientation } from "./tiff_tags.ts";
import { hasText, viewData } from "../file_bytes.ts";

interface Chunk {
  readonly type: string;
  readonly data: Uint8Array<ArrayBuffer>;
}

const CHUNKS_AT = 12;
/** Maximum number of chunks up to the end of the first frame. */
const MAX_CHUNKS = 1000;
const FRAME_HEADER_BYTES = 16;

const decoder = new WasmImageDecoder<WebPModule>({
  locate: () => import.meta.resolve("@jsquash/webp/codec/dec/webp_dec.wasm"),
  load: async () => (await import("@jsquash/webp/codec/dec/webp_dec.js")).default,
});

/** WebP, lossy and lossless. Only an animation's first frame is decoded. */
export const WEBP: ImageFormat = {
  name: "WebP",
  matches: (file) => hasText(file, 0, "RIFF") && hasText(file, 8, "WEBP"),
  readSize,
  decode,
};

function readSize(file: Uint8Array<ArrayBuffer>): ImageSize {
  const chunks = readChunks(file, CHUNKS_AT);
  const find = (wanted: string) => chunks.find(({ type }) => type === wanted)?.data;
  const extended = chunks[0]?.type === "VP8X" ? viewData(chunks[0].data) : undefined;
  const size = extended === undefined
    ? readFrameSize(chunks)
    : { width: getUint24(extended, 4) + 1, height: getUint24(extended, 7) + 1 };
  return { ...size, orientation: findOrientation({ exif: find("EXIF"), xmp: find("XMP ") }) };
}

/** The size in the header of the coded image itself. */
function readFrameSize(chunks: readonly Chunk[]): { width: number; height: number } {
  const frame = chunks.find(({ type }) => type === "VP8 " || type === "VP8L");
  if (frame === undefined) throw invalidMedia("The WebP file has no image in it.");
  const view = viewData(frame.data);
  if (frame.type === "VP8 ") {
    return { width: view.getUint16(6, true) & 0x3fff, height: view.getUint16(8, true) & 0x3fff };
  }
  const bits = view.getUint32(1, true);
  return { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 };
}

/** Reads the chunks of a file or a frame; a truncated chunk ends with the file. */
function readChunks(bytes: Uint8Array<ArrayBuffer>, from: number): Chunk[] {
  const view = viewData(bytes);
  const chunks: Chunk[] = [];
  for (let at = from; at + 8 <= bytes.length && chunks.length < MAX_CHUNKS;) {
    const length = view.getUint32(at + 4, true);
    const type = String.fromCharCode(...bytes.subarray(at, at + 4));
    chunks.push({ type, data: bytes.subarray(at + 8, at + 8 + length) });
    at += 8 + length + length % 2;
  }
  return chunks;
}

function getUint24(view: DataView, at: number): number {
  return view.getUint16(at, true) | view.getUint8(at + 2) << 16;
}

function setUint24(view: DataView, at: number, value: number): void {
  view.setUint16(at, value & 0xffff, true);
  view.setUint8(at + 2, value >> 16);
}

async function decode(file: Uint8Array<ArrayBuffer>, size: ImageSize): Promise<Pixels> {
  const chunks = readChunks(file, CHUNKS_AT);
  const frame = chunks.find(({ type }) => type === "ANMF");
  if (frame === undefined) return await decodeStill(file, size, chunks);
  return await decodeFrame(frame.data, size);
}

/** Decodes the first frame of an animation, onto a transparent canvas. */
async function decodeFrame(data: Uint8Array<ArrayBuffer>, canvas: ImageSize): Promise<Pixels> {
  const view = viewData(data);
  const left = getUint24(view, 0) * 2;
  const top = getUint24(view, 3) * 2;
  const width = getUint24(view, 6) + 1;
  const height = getUint24(view, 9) + 1;
  const right = canvas.width - left - width;
  const bottom = canvas.height - top - height;
  if (right < 0 || bottom < 0) {
    throw invalidMedia("The WebP file is damaged: its first frame is larger than the image.");
  }
  const chunks = readChunks(data, FRAME_HEADER_BYTES);
  const still = await decodeStill(wrapStill(chunks, width, height), { width, height }, chunks);
  return pad(still, { left, top, right, bottom });
}

async function decodeStill(
  file: Uint8Array<ArrayBuffer>,
  { width, height }: { readonly width: number; readonly height: number },
  chunks: readonly Chunk[],
): Promise<Pixels> {
  const coded = readFrameSize(chunks);
  if (coded.width !== width || coded.height !== height) {
    throw invalidMedia(
      `The WebP file is damaged: its image has ${coded.width} × ${coded.height} pixels, but ` +
        `its header says ${width} × ${height}.`,
    );
  }
  return await decoder.decode((codec) => codec.decode(file), { name: "WebP", width, height });
}

/** Makes a file from the chunks of one frame. */
function wrapStill(
  chunks: readonly Chunk[],
  width: number,
  height: number,
): Uint8Array<ArrayBuffer> {
  const hasAlpha = chunks.some(({ type }) => type === "ALPH");
  const header = new Uint8Array(10);
  const view = viewData(header);
  header[0] = hasAlpha ? 0x10 : 0;
  setUint24(view, 4, width - 1);
  setUint24(view, 7, height - 1);
  const parts = [{ type: "VP8X", data: header }, ...chunks];
  const numBytes = parts.reduce((sum, { data }) => sum + 8 + data.length + data.length % 2, 4);
  const file = new Uint8Array(8 + numBytes);
  const fileView = viewData(file);
  const setText = (at: number, text: string) => {
    for (let i = 0; i < 4; i++) file[at + i] = text.charCodeAt(i);
  };
  setText(0, "RIFF");
  fileView.setUint32(4, numBytes, true);
  setText(8, "WEBP");
  let at = 12;
  for (const { type, data } of parts) {
    setText(at, type);
    fileView.setUint32(at + 4, data.length, true);
    file.set(data, at + 8);
    at += 8 + data.length + data.length % 2;
  }
  return file;
}
