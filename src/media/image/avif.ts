/**
 * Reads still AVIF images (AV1 Image File Format 1.1) by libavif.
 *
 * @module
 */
import type { AVIFModule } from "@jsquash/avif/codec/dec/avif_dec.js";
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, invalidImage, viewOf } from "./format.ts";
import { hasText } from "../signature.ts";
import type { Orientation } from "./orientation.ts";
import { WasmImageDecoder } from "./wasm_codec.ts";

/** A box of the ISO base media file format, without its header. */
interface Box {
  readonly type: string;
  readonly view: DataView;
}

const decoder = new WasmImageDecoder<AVIFModule>({
  locate: () => import.meta.resolve("@jsquash/avif/codec/dec/avif_dec.wasm"),
  load: async () => (await import("@jsquash/avif/codec/dec/avif_dec.js")).default,
});

/** Files have some ten brands of 4 bytes. */
const MAX_BRAND_BYTES = 256;
/** Most sibling boxes: a valid file has fewer. */
const MAX_BOXES = 1000;
/** By counterclockwise quarter turns: the orientation alone, mirrored top to bottom, mirrored left to right. */
const ORIENTATIONS: readonly (readonly [Orientation, Orientation, Orientation])[] = [
  [1, 4, 2],
  [8, 5, 7],
  [3, 2, 4],
  [6, 7, 5],
];

/** AVIF; a sequence only if it has a still image too. */
export const AVIF: ImageFormat = {
  name: "AVIF",
  matches: (file) => hasText(file, 4, "ftyp") && listBrands(file).includes("avif"),
  readSize,
  decode,
};

/** A file's brands: the major brand, a version, and compatible brands. */
function listBrands(file: Uint8Array): string[] {
  const numBytes = Math.min(file.length, viewOf(file).getUint32(0), MAX_BRAND_BYTES);
  const texts = new TextDecoder("latin1").decode(file.subarray(8, numBytes));
  return texts.match(/.{4}/gs) ?? [];
}

function readSize(file: Uint8Array<ArrayBuffer>): ImageSize {
  // Boxes that have a version begin with it and three bytes of flags.
  const meta = listBoxes(skip(findBox(listBoxes(viewOf(file)), "meta"), 4));
  const primary = findBox(meta, "pitm");
  const id = primary.getUint8(0) === 0 ? primary.getUint16(4) : primary.getUint32(4);
  const properties = listBoxes(findBox(meta, "iprp"));
  const all = listBoxes(findBox(properties, "ipco"));
  const own = listProperties(findBox(properties, "ipma"), id).map((index) => all[index - 1]);
  const find = (type: string) => own.find((box) => box?.type === type)?.view;
  const size = find("ispe");
  if (size === undefined) {
    throw invalidImage("The AVIF file does not say how large its image is.");
  }
  const turns = (find("irot")?.getUint8(0) ?? 0) & 3;
  const axis = find("imir")?.getUint8(0);
  const mirroring = axis === undefined ? 0 : 1 + (axis & 1);
  return {
    width: size.getUint32(4),
    height: size.getUint32(8),
    orientation: ORIENTATIONS[turns]![mirroring]!,
  };
}

function listBoxes(view: DataView): Box[] {
  const boxes: Box[] = [];
  for (let at = 0; at + 8 <= view.byteLength && boxes.length < MAX_BOXES;) {
    const type = String.fromCharCode(...[4, 5, 6, 7].map((i) => view.getUint8(at + i)));
    // 0 is to the end; 1 is a length in 64 bits, which only pixels have.
    const given = view.getUint32(at);
    const length = given === 1 ? Number(view.getBigUint64(at + 8)) : given || view.byteLength - at;
    if (length < 8 || at + length > view.byteLength) break;
    boxes.push({ type, view: new DataView(view.buffer, view.byteOffset + at + 8, length - 8) });
    at += length;
  }
  return boxes;
}

function findBox(boxes: readonly Box[], type: string): DataView {
  const box = boxes.find((box) => box.type === type);
  if (box === undefined) throw invalidImage(`The AVIF file is damaged: it has no "${type}" box.`);
  return box.view;
}

function skip(view: DataView, numBytes: number): DataView {
  return new DataView(view.buffer, view.byteOffset + numBytes, view.byteLength - numBytes);
}

/** The numbers of an item's properties, from 1. */
function listProperties(view: DataView, id: number): number[] {
  const hasLongIds = view.getUint8(0) >= 1;
  const hasLongNumbers = (view.getUint8(3) & 1) === 1;
  const numItems = view.getUint32(4);
  let at = 8;
  for (let item = 0; item < numItems; item++) {
    const itemId = hasLongIds ? view.getUint32(at) : view.getUint16(at);
    at += hasLongIds ? 4 : 2;
    const count = view.getUint8(at++);
    const step = hasLongNumbers ? 2 : 1;
    if (itemId === id) {
      return Array.from({ length: count }, (_, i) =>
        // The first bit says whether the property must be understood.
        hasLongNumbers ? view.getUint16(at + 2 * i) & 0x7fff : view.getUint8(at + i) & 0x7f);
    }
    at += count * step;
  }
  return [];
}

async function decode(file: Uint8Array<ArrayBuffer>, size: ImageSize): Promise<Pixels> {
  return await decoder.decode((codec) => codec.decode(file, 8), { name: "AVIF", ...size });
}
