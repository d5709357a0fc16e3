/**
 * The items of a HEIF file (ISO/IEC 23008-12) and their properties. AVIF and HEIC are HEIF files.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { viewData } from "../file_bytes.ts";
import { joinBytes } from "../../base/bytes.ts";

/**
 * The properties of an item: the number of each, counted from 1, with a bit that says whether readers must understand
 * the property.
 */
interface ItemProperties {
  readonly id: number;
  readonly numbers: readonly number[];
}

/** The part of a file that describes its items. */
interface HeifItems {
  readonly primaryId: number;
  /** All properties of the file; items refer to them by number. */
  readonly properties: readonly Box[];
  readonly items: readonly ItemProperties[];
}

/** The bit in a property's number that says that readers must understand it. */
const IS_ESSENTIAL = 0x8000;

/** @throws {HearthError} `invalid_media` when a box is missing. */
export function readHeifItems(file: Uint8Array, format: string): HeifItems {
  // The content of a box with a version begins with the version and three bytes of flags.
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
 * Width and height of the stored image, before it is rotated.
 *
 * @throws {HearthError} `invalid_media` when the file does not give them.
 */
export function readStoredSize(
  properties: readonly Box[],
  format: string,
): { width: number; height: number } {
  const size = properties.find(({ type }) => type === "ispe")?.view;
  if (size === undefined) {
    throw invalidMedia(`The ${format} file does not say how large its image is.`);
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

interface Box {
  readonly type: string;
  /** The content of the box. */
  readonly view: DataView;
}

/** Maximum number of bytes read for a file's brands. A file has about ten brands of 4 bytes. */
const MAX_BRAND_BYTES = 256;
/** Maximum number of boxes on one level; valid files have fewer. */
const MAX_BOXES = 4000;

/** A file's brands: the major brand, a version, and compatible brands. */
export function listBrands(file: Uint8Array): string[] {
  const numBytes = Math.min(file.length, viewData(file).getUint32(0), MAX_BRAND_BYTES);
  const texts = new TextDecoder("latin1").decode(file.subarray(8, numBytes));
  return texts.match(/.{4}/gs) ?? [];
}

/** Lists the boxes in a view; the list ends at an invalid length. */
function listBoxes(view: DataView): Box[] {
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
function findBox(boxes: readonly Box[], type: string, format: string): DataView {
  const box = boxes.find((box) => box.type === type);
  if (box === undefined) {
    throw invalidMedia(`The ${format} file is damaged: it has no "${type}" box.`);
  }
  return box.view;
}

/** A view without its first bytes. */
function skipBytes(view: DataView, numBytes: number): DataView {
  return new DataView(view.buffer, view.byteOffset + numBytes, view.byteLength - numBytes);
}

function writeBox(type: string, ...contents: readonly Uint8Array[]): Uint8Array[] {
  const head = new Uint8Array(8);
  viewData(head).setUint32(0, contents.reduce((sum, { length }) => sum + length, 8));
  head.set(Uint8Array.from(type, (letter) => letter.charCodeAt(0)), 4);
  return [head, ...contents];
}

function viewToBytes({ buffer, byteOffset, byteLength }: DataView): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}

/** Bytes of a box's header. */
const HEAD_BYTES = 8;
/** Bytes of the version and flags that may follow a box's header. */
const VERSION_BYTES = 4;

/**
 * Adds the `pixi` property, which repeats the bit depth of the channels, to all images of an AVIF file that lack it.
 * Returns the file unchanged if none lacks it. MIAF requires the property (ISO/IEC 23000-22) and libavif refuses files
 * without it, but many files lack it and browsers read them.
 */
export function addPixi(file: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const read = readHeifItems(file, "AVIF");
  const { properties, items } = read;
  const isType = (number: number, type: string) =>
    properties[(number & ~IS_ESSENTIAL) - 1]?.type === type;
  const lacks = ({ numbers }: ItemProperties) =>
    numbers.some((number) => isType(number, "ispe")) &&
    !numbers.some((number) => isType(number, "pixi"));
  if (!items.some(lacks)) return file;
  const number = properties.length + 1;
  const associations = writeAssociations(
    items.map((item) => lacks(item) ? { ...item, numbers: [...item.numbers, number] } : item),
  );
  const pixi = joinBytes(writeBox("pixi", Uint8Array.of(0, 0, 0, 0, 1, readDepth(read))));
  return rewriteMeta(file, { pixi, associations });
}

/** The bit depth of a channel. All images of a file have the same depth; otherwise libavif refuses the file. */
function readDepth({ properties }: HeifItems): number {
  const configuration = properties.find(({ type }) => type === "av1C")?.view;
  // The flags for high bit depth and for 12 bits (AV1 in ISOBMFF, 2.3.3).
  const flags = configuration?.getUint8(2) ?? 0;
  return (flags & 0x40) === 0 ? 8 : (flags & 0x20) === 0 ? 10 : 12;
}

/** Writes all associations into one box, with wide numbers. */
function writeAssociations(items: readonly ItemProperties[]): Uint8Array {
  const size = items.reduce((sum, { numbers }) => sum + 5 + 2 * numbers.length, HEAD_BYTES);
  const content = new Uint8Array(size);
  const view = viewData(content);
  view.setUint32(0, 0x01000001);
  view.setUint32(4, items.length);
  let at = 8;
  for (const { id, numbers } of items) {
    view.setUint32(at, id);
    content[at + 4] = numbers.length;
    at += 5;
    for (const number of numbers) {
      view.setUint16(at, number);
      at += 2;
    }
  }
  return joinBytes(writeBox("ipma", content));
}

function rewriteMeta(
  file: Uint8Array<ArrayBuffer>,
  { pixi, associations }: { readonly pixi: Uint8Array; readonly associations: Uint8Array },
): Uint8Array<ArrayBuffer> {
  const meta = findBox(listBoxes(viewData(file)), "meta", "AVIF");
  const metaAt = meta.byteOffset - file.byteOffset - HEAD_BYTES;
  const metaEnd = metaAt + HEAD_BYTES + meta.byteLength;
  const version = viewToBytes(meta).subarray(0, VERSION_BYTES);
  const boxes = listBoxes(skipBytes(meta, VERSION_BYTES));
  const write = (locations: (view: DataView) => Uint8Array) =>
    joinBytes(writeBox(
      "meta",
      version,
      ...boxes.flatMap(({ type, view }) => {
        if (type === "iloc") return writeBox(type, locations(view));
        if (type !== "iprp") return writeBox(type, viewToBytes(view));
        const inner = listBoxes(view).filter(({ type }) => type !== "ipma");
        return writeBox(
          type,
          ...inner.flatMap(({ type, view }) =>
            writeBox(type, viewToBytes(view), ...(type === "ipco" ? [pixi] : []))
          ),
          associations,
        );
      }),
    ));
  const numAdded = write(viewToBytes).length - (metaEnd - metaAt);
  const moved = write((view) => moveLocations(viewToBytes(view).slice(), metaEnd, numAdded));
  return joinBytes([file.subarray(0, metaAt), moved, file.subarray(metaEnd)]);
}

/** Adds `numAdded` to all offsets that point to `from` or beyond in the file (ISO/IEC 14496-12, 8.11.3). */
function moveLocations(content: Uint8Array, from: number, numAdded: number): Uint8Array {
  const view = viewData(content);
  const version = view.getUint8(0);
  const sizes = view.getUint16(4);
  const [offsetBytes, lengthBytes] = [sizes >> 12, sizes >> 8 & 15];
  const [baseBytes, indexBytes] = [sizes >> 4 & 15, version === 0 ? 0 : sizes & 15];
  const read = (at: number, numBytes: number) =>
    numBytes === 8 ? Number(view.getBigUint64(at)) : numBytes === 4 ? view.getUint32(at) : 0;
  const move = (at: number, numBytes: number) => {
    const value = read(at, numBytes) + numAdded;
    if (numBytes === 8) view.setBigUint64(at, BigInt(value));
    else if (numBytes === 4) view.setUint32(at, value);
  };
  const idBytes = version < 2 ? 2 : 4;
  const numItems = idBytes === 2 ? view.getUint16(6) : view.getUint32(6);
  let at = 6 + idBytes;
  for (let item = 0; item < numItems; item++) {
    at += idBytes;
    // Method 0 means offsets into the file; other methods mean offsets into a box of `meta`, or into another item.
    const method = version === 0 ? 0 : view.getUint16(at) & 15;
    at += (version === 0 ? 0 : 2) + 2;
    const baseAt = at;
    const base = read(baseAt, baseBytes);
    at += baseBytes;
    const numExtents = view.getUint16(at);
    at += 2;
    let isBaseMoved = false;
    for (let extent = 0; extent < numExtents; extent++) {
      at += indexBytes;
      if (method === 0 && base + read(at, offsetBytes) >= from) {
        if (offsetBytes > 0) move(at, offsetBytes);
        else if (!isBaseMoved) {
          move(baseAt, baseBytes);
          isBaseMoved = true;
        }
      }
      at += offsetBytes + lengthBytes;
    }
  }
  return content;
}
