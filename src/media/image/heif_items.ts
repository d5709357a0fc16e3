/**
 * The items of a HEIF file (ISO/IEC 23008-12) and their properties. AVIF and HEIC are HEIF files.
 *
 * @module
 */
import { invalidImage, viewData } from "./format.ts";

/**
 * The properties of an item: their numbers, counted from 1, with a bit that says whether readers must understand them.
 */
export interface ItemProperties {
  readonly id: number;
  readonly numbers: readonly number[];
}

/** The part of a file that describes its items. */
export interface HeifItems {
  readonly primaryId: number;
  /** All properties of the file; items refer to them by number. */
  readonly properties: readonly Box[];
  readonly items: readonly ItemProperties[];
}

/** The bit in a property's number that says that readers must understand it. */
export const IS_ESSENTIAL = 0x8000;

/** @throws {HearthError} `invalid_media` when a box is missing. */
export function readHeifItems(file: Uint8Array, format: string): HeifItems {
  // Boxes with a version begin with it and three bytes of flags.
  const meta = listBoxes(skipBytes(findBox(listBoxes(viewData(file)), "meta", format), 4));
  const primary = findBox(meta, "pitm", format);
  const boxes = listBoxes(findBox(meta, "iprp", format));
  return {
    primaryId: primary.getUint8(0) === 0 ? primary.getUint16(4) : primary.getUint32(4),
    properties: listBoxes(findBox(boxes, "ipco", format)),
    items: boxes.filter(({ type }) => type === "ipma").flatMap(({ view }) => listItems(view)),
  };
}

/**
 * The properties of the primary image, in order.
 *
 * @throws {HearthError} `invalid_media` when a box is missing.
 */
export function listPrimaryProperties(file: Uint8Array, format: string): Box[] {
  const { primaryId, properties, items } = readHeifItems(file, format);
  const numbers = items.find(({ id }) => id === primaryId)?.numbers ?? [];
  return numbers.flatMap((number) => properties[(number & ~IS_ESSENTIAL) - 1] ?? []);
}

/**
 * Width and height of the image as it is stored.
 *
 * @throws {HearthError} `invalid_media` when the file does not give them.
 */
export function readStoredSize(
  properties: readonly Box[],
  format: string,
): { width: number; height: number } {
  const size = properties.find(({ type }) => type === "ispe")?.view;
  if (size === undefined) {
    throw invalidImage(`The ${format} file does not say how large its image is.`);
  }
  return { width: size.getUint32(4), height: size.getUint32(8) };
}

function listItems(view: DataView): ItemProperties[] {
  const hasLongIds = view.getUint8(0) >= 1;
  const hasLongNumbers = (view.getUint8(3) & 1) === 1;
  const numItems = view.getUint32(4);
  const items: ItemProperties[] = [];
  let at = 8;
  for (let item = 0; item < numItems; item++) {
    const id = hasLongIds ? view.getUint32(at) : view.getUint16(at);
    at += hasLongIds ? 4 : 2;
    const count = view.getUint8(at++);
    const step = hasLongNumbers ? 2 : 1;
    const from = at;
    const numbers = Array.from({ length: count }, (_, i) => {
      if (hasLongNumbers) return view.getUint16(from + 2 * i);
      const number = view.getUint8(from + i);
      return (number & 0x80) << 8 | number & 0x7f;
    });
    items.push({ id, numbers });
    at += count * step;
  }
  return items;
}

/** A box. */
interface Box {
  readonly type: string;
  /** The content of the box. */
  readonly view: DataView;
}

/** Bytes of brands that are read. A file has about ten brands of 4 bytes. */
const MAX_BRAND_BYTES = 256;
/** Most boxes on one level; valid files have fewer. */
const MAX_BOXES = 4000;

/** A file's brands: the major brand, a version, and compatible brands. */
export function listBrands(file: Uint8Array): string[] {
  const numBytes = Math.min(file.length, viewData(file).getUint32(0), MAX_BRAND_BYTES);
  const texts = new TextDecoder("latin1").decode(file.subarray(8, numBytes));
  return texts.match(/.{4}/gs) ?? [];
}

/** Lists the boxes in a view; the list ends at an invalid length. */
export function listBoxes(view: DataView): Box[] {
  const boxes: Box[] = [];
  for (let at = 0; at + 8 <= view.byteLength && boxes.length < MAX_BOXES;) {
    const type = String.fromCharCode(...[4, 5, 6, 7].map((i) => view.getUint8(at + i)));
    // A length of 0 means up to the end; 1 means that a 64-bit length follows, which only boxes of pixels have.
    const given = view.getUint32(at);
    if (given === 1 && at + 16 > view.byteLength) break;
    const length = given === 1 ? Number(view.getBigUint64(at + 8)) : given || view.byteLength - at;
    if (length < 8 || at + length > view.byteLength) break;
    boxes.push({ type, view: new DataView(view.buffer, view.byteOffset + at + 8, length - 8) });
    at += length;
  }
  return boxes;
}

/** @throws {HearthError} `invalid_media` when there is no box of this type. */
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

/** Writes a box. */
export function writeBox(type: string, ...contents: readonly Uint8Array[]): Uint8Array[] {
  const head = new Uint8Array(8);
  viewData(head).setUint32(0, contents.reduce((sum, { length }) => sum + length, 8));
  head.set(Uint8Array.from(type, (letter) => letter.charCodeAt(0)), 4);
  return [head, ...contents];
}

/** The bytes of a view. */
export function viewToBytes({ buffer, byteOffset, byteLength }: DataView): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}
