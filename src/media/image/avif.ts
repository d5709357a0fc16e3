/**
 * Reads still AVIF images (AV1 Image File Format 1.1) with libavif.
 *
 * @module
 */
import type { AVIFModule } from "@jsquash/avif/codec/dec/avif_dec.js";
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, type Orientation, viewData } from "./format.ts";
import {
  findBox,
  type HeifItems,
  IS_ESSENTIAL,
  type ItemProperties,
  listBoxes,
  listBrands,
  listPrimaryProperties,
  readHeifItems,
  readStoredSize,
  skipBytes,
  viewToBytes,
  writeBox,
} from "./heif_items.ts";
import { hasText } from "../signature.ts";
import { WasmImageDecoder } from "./wasm_codec.ts";
import { joinBytes } from "../../base/join_bytes.ts";

// Adds the `pixi` property, which repeats the bit depth of the channels. MIAF requires it (ISO/IEC 23000-22) and
// libavif refuses files without it, but many files lack it and browsers read them.

/** Bytes of a box's header, and of the version and flags that may follow it. */
const HEAD_BYTES = 8;
const VERSION_BYTES = 4;

/** The same file if every image has the property, else a copy in which it is added. */
function addPixi(file: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
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

/** Moves all offsets into the file at or beyond `from` (ISO/IEC 14496-12, 8.11.3). */
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

const decoder = new WasmImageDecoder<AVIFModule>({
  locate: () => import.meta.resolve("@jsquash/avif/codec/dec/avif_dec.wasm"),
  load: async () => (await import("@jsquash/avif/codec/dec/avif_dec.js")).default,
});

/** Orientations by number of counterclockwise quarter turns: alone, mirrored top to bottom, mirrored left to right. */
const ORIENTATIONS: readonly (readonly [Orientation, Orientation, Orientation])[] = [
  [1, 4, 2],
  [8, 5, 7],
  [3, 2, 4],
  [6, 7, 5],
];

/** AVIF. Sequences are supported only if they have a still image too. */
export const AVIF: ImageFormat = {
  name: "AVIF",
  matches: (file) => hasText(file, 4, "ftyp") && listBrands(file).includes("avif"),
  readSize,
  decode,
};

function readSize(file: Uint8Array<ArrayBuffer>): ImageSize {
  const properties = listPrimaryProperties(file, "AVIF");
  const find = (name: string) => properties.find(({ type }) => type === name)?.view;
  const turns = (find("irot")?.getUint8(0) ?? 0) & 3;
  const axis = find("imir")?.getUint8(0);
  const mirroring = axis === undefined ? 0 : 1 + (axis & 1);
  return {
    ...readStoredSize(properties, "AVIF"),
    orientation: ORIENTATIONS[turns]![mirroring]!,
  };
}

async function decode(file: Uint8Array<ArrayBuffer>, size: ImageSize): Promise<Pixels> {
  const complete = addPixi(file);
  return await decoder.decode((codec) => codec.decode(complete, 8), { name: "AVIF", ...size });
}
