/**
 * Reads still AVIF images (AV1 Image File Format 1.1) by libavif.
 *
 * @module
 */
import type { AVIFModule } from "@jsquash/avif/codec/dec/avif_dec.js";
import type { Pixels } from "../pixels.ts";
import { addPixi } from "./avif_pixi.ts";
import type { ImageFormat, ImageSize } from "./format.ts";
import { listPrimaryProperties, readStoredSize } from "./heif_items.ts";
import { listBrands } from "./iso_boxes.ts";
import { hasText } from "../signature.ts";
import type { Orientation } from "./orientation.ts";
import { WasmImageDecoder } from "./wasm_codec.ts";

const decoder = new WasmImageDecoder<AVIFModule>({
  locate: () => import.meta.resolve("@jsquash/avif/codec/dec/avif_dec.wasm"),
  load: async () => (await import("@jsquash/avif/codec/dec/avif_dec.js")).default,
});

/** Orientations by counterclockwise quarter turns: alone, mirrored top to bottom, mirrored left to right. */
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
