/**
 * The items of a HEIF file (ISO/IEC 23008-12) and their properties: AVIF and HEIC are such files.
 *
 * @module
 */
import { invalidImage, viewData } from "./format.ts";
import { type Box, findBox, listBoxes, skipBytes } from "./iso_boxes.ts";

/** What properties an item has: their numbers, from 1, with the bit that says whether they must be understood. */
export interface ItemProperties {
  readonly id: number;
  readonly numbers: readonly number[];
}

/** The part of a file that says what is where. */
export interface HeifItems {
  readonly primaryId: number;
  /** All properties; an item names some by their numbers. */
  readonly properties: readonly Box[];
  readonly items: readonly ItemProperties[];
}

/** The bit of a property's number that says that it must be understood. */
export const IS_ESSENTIAL = 0x8000;

/** @throws {HearthError} `invalid_media` when a box is missing. */
export function readHeifItems(file: Uint8Array, format: string): HeifItems {
  // Boxes that have a version begin with it and three bytes of flags.
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
 * The properties of the primary image, in their order.
 *
 * @throws {HearthError} `invalid_media` when a box is missing.
 */
export function listPrimaryProperties(file: Uint8Array, format: string): Box[] {
  const { primaryId, properties, items } = readHeifItems(file, format);
  const numbers = items.find(({ id }) => id === primaryId)?.numbers ?? [];
  return numbers.flatMap((number) => properties[(number & ~IS_ESSENTIAL) - 1] ?? []);
}

/** Width and height of the image as it is stored. @throws {HearthError} `invalid_media` when they are not given. */
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
