/**
 * The boxes of the ISO base media file format (ISO/IEC 14496-12) that AVIF and HEIF files consist of.
 *
 * @module
 */
import { invalidImage, viewData } from "./format.ts";

/** A box. */
export interface Box {
  readonly type: string;
  /** Its content. */
  readonly view: DataView;
}

/** Files have some ten brands of 4 bytes. */
const MAX_BRAND_BYTES = 256;
/** Most sibling boxes: a valid file has fewer. */
const MAX_BOXES = 4000;

/** A file's brands: the major brand, a version, and compatible brands. */
export function listBrands(file: Uint8Array): string[] {
  const numBytes = Math.min(file.length, viewData(file).getUint32(0), MAX_BRAND_BYTES);
  const texts = new TextDecoder("latin1").decode(file.subarray(8, numBytes));
  return texts.match(/.{4}/gs) ?? [];
}

/** The boxes that a view of bytes begins with; the list ends where a length is wrong. */
export function listBoxes(view: DataView): Box[] {
  const boxes: Box[] = [];
  for (let at = 0; at + 8 <= view.byteLength && boxes.length < MAX_BOXES;) {
    const type = String.fromCharCode(...[4, 5, 6, 7].map((i) => view.getUint8(at + i)));
    // 0 is to the end; 1 is a length in 64 bits, which only pixels have.
    const given = view.getUint32(at);
    if (given === 1 && at + 16 > view.byteLength) break;
    const length = given === 1 ? Number(view.getBigUint64(at + 8)) : given || view.byteLength - at;
    if (length < 8 || at + length > view.byteLength) break;
    boxes.push({ type, view: new DataView(view.buffer, view.byteOffset + at + 8, length - 8) });
    at += length;
  }
  return boxes;
}

/** @throws {HearthError} `invalid_media` when there is none of the type. */
export function findBox(boxes: readonly Box[], type: string, format: string): DataView {
  const box = boxes.find((box) => box.type === type);
  if (box === undefined) {
    throw invalidImage(`The ${format} file is damaged: it has no "${type}" box.`);
  }
  return box.view;
}

/** A view without its first bytes. */
export function skipBytes(view: DataView, numBytes: number): DataView {
  return new DataView(view.buffer, view.byteOffset + numBytes, view.byteLength - numBytes);
}

/** A box as bytes. */
export function writeBox(type: string, ...contents: readonly Uint8Array[]): Uint8Array[] {
  const head = new Uint8Array(8);
  viewData(head).setUint32(0, contents.reduce((sum, { length }) => sum + length, 8));
  head.set(Uint8Array.from(type, (letter) => letter.charCodeAt(0)), 4);
  return [head, ...contents];
}

/** The bytes of a view. */
export function bytesOfView({ buffer, byteOffset, byteLength }: DataView): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}
