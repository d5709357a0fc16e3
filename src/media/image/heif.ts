/**
 * Reads HEIF images (ISO/IEC 23008-12): HEIC, the HEVC images that phones write, with libheif and libde265; and AVIF
 * (AV1 Image File Format 1.1) with libavif.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { AVIFModule } from "@jsquash/avif/codec/dec/avif_dec.js";
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, WasmImageDecoder } from "./format.ts";
import type { Orientation } from "./tiff_tags.ts";
import { BitReader, hasText } from "../file_bytes.ts";
import {
  addPixi,
  listBrands,
  listPrimaryProperties,
  readHeifItems,
  readStoredSize,
} from "./heif_items.ts";

/**
 * Offset of the arrays of units in an HEVC decoder configuration (ISO/IEC 14496-15, 8.3.3.1). The units give the size
 * of the pictures (ITU-T H.265, 7.3.2.2).
 */
const ARRAYS_AT = 22;
const SEQUENCE_PARAMETERS = 33;
/** The chroma format 4:4:4. A bit after it says whether the planes are separate. */
const FULL_CHROMA = 3;

/**
 * The largest width and height in the sequence parameter sets; `undefined` if none can be read, in which case the
 * decoder cannot decode the pictures either.
 */
function readHevcSize(
  configuration: DataView,
): { readonly width: number; readonly height: number } | undefined {
  try {
    const sizes = listSets(configuration).map(readSetSize);
    if (sizes.length === 0) return undefined;
    return {
      width: Math.max(...sizes.map(({ width }) => width)),
      height: Math.max(...sizes.map(({ height }) => height)),
    };
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Lists the sequence parameter sets in the arrays of units. */
function listSets(view: DataView): Uint8Array[] {
  const sets: Uint8Array[] = [];
  let at = ARRAYS_AT + 1;
  for (let array = view.getUint8(ARRAYS_AT); array > 0; array--) {
    const type = view.getUint8(at) & 0x3f;
    const numUnits = view.getUint16(at + 1);
    at += 3;
    for (let unit = 0; unit < numUnits; unit++) {
      const length = view.getUint16(at);
      at += 2;
      const bytes = new Uint8Array(view.buffer, view.byteOffset + at, length);
      if (type === SEQUENCE_PARAMETERS) sets.push(bytes);
      at += length;
    }
  }
  return sets;
}

/** Reads the size in a unit, after removing the bytes that prevent it from containing a start code. */
function readSetSize(unit: Uint8Array): { width: number; height: number } {
  const bits = new BitReader(
    unit.filter((byte, i) => !(byte === 3 && unit[i - 1] === 0 && unit[i - 2] === 0)),
  );
  // Skips the unit's header and the number of the video parameter set.
  bits.skip(16 + 4);
  const numSubLayers = bits.read(3);
  // Skips a flag, the profile and the level, and the profiles and levels of the sub-layers that have them.
  bits.skip(1 + 88 + 8);
  const flags = Array.from({ length: numSubLayers }, () => [bits.read(1), bits.read(1)] as const);
  if (numSubLayers > 0) bits.skip(2 * (8 - numSubLayers));
  for (const [hasProfile, hasLevel] of flags) bits.skip(88 * hasProfile + 8 * hasLevel);
  readGolomb(bits);
  if (readGolomb(bits) === FULL_CHROMA) bits.skip(1);
  return { width: readGolomb(bits), height: readGolomb(bits) };
}

/** Reads an unsigned Exp-Golomb code: a number of zeros, a one, then as many bits as there were zeros. */
function readGolomb(bits: BitReader): number {
  const numBits = bits.readUnary();
  return 2 ** numBits - 1 + bits.read(numBits);
}

const heicDecoder = new WasmImageDecoder<LibHeif>({
  locate: () => import.meta.resolve("libheif-js/libheif-wasm/libheif.wasm"),
  load: async () =>
    (await import("libheif-js/libheif-wasm/libheif.js")).default as unknown as LibHeifFactory,
});

/** Brands of still images and of image collections. */
const BRANDS = ["heic", "heix", "heim", "heis", "mif1", "mif2"];

/** HEIC; only the primary image is decoded. libheif rotates, mirrors and crops it as the file says. */
export const HEIC: ImageFormat = {
  name: "HEIC",
  matches: (file) =>
    hasText(file, 4, "ftyp") && listBrands(file).some((brand) => BRANDS.includes(brand)),
  readSize: readHeicSize,
  decode: decodeHeic,
};

/**
 * The size of the image after rotation and cropping. Exif data, which repeat the rotation in the file's own properties,
 * are ignored: the image would be rotated twice.
 */
function readHeicSize(file: Uint8Array<ArrayBuffer>): ImageSize {
  const properties = listPrimaryProperties(file, "HEIC");
  let { width, height } = readStoredSize(properties, "HEIC");
  for (const { type, view } of properties) {
    if (type === "irot" && (view.getUint8(0) & 1) === 1) [width, height] = [height, width];
    if (type === "clap") {
      width = Math.floor(view.getUint32(0) / view.getUint32(4));
      height = Math.floor(view.getUint32(8) / view.getUint32(12));
    }
  }
  return { width, height, orientation: 1 };
}

async function decodeHeic(file: Uint8Array<ArrayBuffer>, size: ImageSize): Promise<Pixels> {
  checkCodedSizes(file);
  return await heicDecoder.decode((codec) => decodePrimary(codec, file), { name: "HEIC", ...size });
}

/** A coded picture may extend beyond the image by this many pixels, since HEVC pictures consist of whole blocks. */
const MAX_MARGIN = 64;
/** Maximum number of pixels of a coded picture; four times the default limit. */
const MAX_STORED_PIXELS = 256e6;

/** Refuses pictures that are larger than the file claims: the decoder would allocate memory for them. */
function checkCodedSizes(file: Uint8Array<ArrayBuffer>): void {
  const { properties } = readHeifItems(file, "HEIC");
  const sizes = properties.filter(({ type }) => type === "ispe").map(({ view }) => ({
    width: view.getUint32(4),
    height: view.getUint32(8),
  }));
  const maxWidth = Math.max(...sizes.map(({ width }) => width)) + MAX_MARGIN;
  const maxHeight = Math.max(...sizes.map(({ height }) => height)) + MAX_MARGIN;
  for (const { type, view } of properties) {
    const coded = type === "hvcC" ? readHevcSize(view) : undefined;
    if (coded === undefined) continue;
    const { width, height } = coded;
    if (width > maxWidth || height > maxHeight || width * height > MAX_STORED_PIXELS) {
      throw invalidMedia(
        `The HEIC file is damaged: it has pictures of ${width} × ${height} pixels, which is more ` +
          "than its header says.",
      );
    }
  }
}

function decodePrimary(codec: LibHeif, file: Uint8Array<ArrayBuffer>) {
  const context = codec.heif_context_alloc();
  try {
    check(codec.heif_context_read_from_memory(context, file), codec);
    const handle = codec.heif_js_context_get_primary_image_handle(context);
    check(handle, codec);
    try {
      const rgb = codec.heif_colorspace.heif_colorspace_RGB;
      const rgba = codec.heif_chroma.heif_chroma_interleaved_RGBA;
      const decoded = codec.heif_js_decode_image2(handle, rgb, rgba);
      check(decoded, codec);
      try {
        return copyRows(decoded.channels[0]!);
      } finally {
        codec.heif_image_release(decoded.image);
      }
    } finally {
      codec.heif_image_handle_release(handle);
    }
  } finally {
    codec.heif_context_free(context);
  }
}

/** @throws {HearthError} `invalid_media` with libheif's message. */
function check({ code, message }: LibHeifResult, codec: LibHeif): void {
  if (code === undefined || code === codec.heif_error_code.heif_error_Ok) return;
  const reason = message?.trim().replace(/\.$/, "").trim();
  throw invalidMedia(`The HEIC file is damaged or of an unsupported kind: ${reason}.`);
}

/** Copies the pixels out of the decoder's memory, whose rows may be padded. */
function copyRows({ width, height, stride, data }: LibHeifPlane) {
  const rowBytes = width * 4;
  const copy = new Uint8Array(rowBytes * height);
  for (let y = 0; y < height; y++) {
    copy.set(data.subarray(y * stride, y * stride + rowBytes), y * rowBytes);
  }
  return { width, height, data: copy };
}

/** A handle to something that libheif owns. */
type Opaque = { readonly libheif: never };

/** An error; a successful result has no code. */
interface LibHeifResult {
  readonly code?: unknown;
  readonly message?: string;
}

/** Pixels in libheif's memory. */
interface LibHeifPlane {
  readonly width: number;
  readonly height: number;
  /** Bytes from one row to the next. */
  readonly stride: number;
  readonly data: Uint8Array;
}

/** An instance of libheif. */
interface LibHeif {
  readonly heif_error_code: { readonly heif_error_Ok: unknown };
  readonly heif_colorspace: { readonly heif_colorspace_RGB: unknown };
  readonly heif_chroma: { readonly heif_chroma_interleaved_RGBA: unknown };
  heif_context_alloc(): Opaque;
  heif_context_free(context: Opaque): void;
  heif_context_read_from_memory(context: Opaque, file: Uint8Array): LibHeifResult;
  heif_js_context_get_primary_image_handle(context: Opaque): LibHeifResult & Opaque;
  heif_image_handle_release(handle: Opaque): void;
  heif_js_decode_image2(
    handle: Opaque,
    colorspace: unknown,
    chroma: unknown,
  ): LibHeifResult & { readonly image: Opaque; readonly channels: readonly LibHeifPlane[] };
  heif_image_release(image: Opaque): void;
}

/** Emscripten's factory function. */
type LibHeifFactory = (options: object) => Promise<LibHeif>;

const avifDecoder = new WasmImageDecoder<AVIFModule>({
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
  readSize: readAvifSize,
  decode: decodeAvif,
};

function readAvifSize(file: Uint8Array<ArrayBuffer>): ImageSize {
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

async function decodeAvif(file: Uint8Array<ArrayBuffer>, size: ImageSize): Promise<Pixels> {
  const complete = addPixi(file);
  return await avifDecoder.decode((codec) => codec.decode(complete, 8), { name: "AVIF", ...size });
}
