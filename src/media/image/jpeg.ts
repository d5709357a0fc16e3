/**
 * Reads JPEG files: grey, YCbCr and RGB with MozJPEG, whose pixels equal libjpeg-turbo's; CMYK and YCCK with jpeg-js.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { MozJPEGModule } from "@jsquash/jpeg/codec/dec/mozjpeg_dec.js";
import { joinBytes } from "../../base/bytes.ts";
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, WasmImageDecoder } from "./format.ts";
import { findOrientation, type Orientation } from "./tiff_tags.ts";
import { hasText, viewData } from "../file_bytes.ts";

/** Maximum number of scans of an image: encoders write about ten, and more would only keep the decoder busy. */
const MAX_SCANS = 100;
/** Maximum number of pixels in all scans of an image. */
const MAX_SCANNED_PIXELS = 2e9;
/** Limit for jpeg-js, which takes 60 bytes per pixel. */
const MAX_CMYK_PIXELS = 16e6;

const decoder = new WasmImageDecoder<MozJPEGModule>({
  locate: () => import.meta.resolve("@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm"),
  load: async () => (await import("@jsquash/jpeg/codec/dec/mozjpeg_dec.js")).default,
});

/** JPEG, baseline and progressive. */
export const JPEG: ImageFormat = {
  name: "JPEG",
  matches: (file) => file[0] === 0xff && file[1] === 0xd8 && file[2] === 0xff,
  readSize: readJpegMarkers,
  decode,
};

async function decode(file: Uint8Array<ArrayBuffer>, size: ImageSize): Promise<Pixels> {
  const { numComponents, isAdobe, numScans, lacksEnd, unread } = readJpegMarkers(file);
  if (unread !== undefined) {
    throw invalidMedia(
      `The JPEG file cannot be read: it ${unread}. Baseline and progressive JPEG with Huffman codes ` +
        "and samples of 8 bits can be read; save it as one of these, or as PNG.",
    );
  }
  const maxScans = Math.min(MAX_SCANS, Math.floor(MAX_SCANNED_PIXELS / (size.width * size.height)));
  if (numScans > maxScans) {
    throw invalidMedia(
      `The JPEG file has ${numScans} passes over its image; at most ${maxScans} are allowed at its size.`,
    );
  }
  if (numComponents === 4 && !isAdobe) {
    throw invalidMedia(
      "The JPEG file has four colour components, and no Adobe segment that says what they mean.",
    );
  }
  if (numComponents === 4) return await decodeCmyk(file, size);
  // Some cameras omit the end marker. With it added, the decoder's messages distinguish a complete file from a cut one.
  const whole = lacksEnd ? joinBytes([file, Uint8Array.of(0xff, END_OF_IMAGE)]) : file;
  return await decoder.decode((codec) => codec.decode(whole, false), {
    ...{ name: "JPEG", ...size },
    cutOff: lacksEnd ? "premature end of data segment" : "Premature end of JPEG file",
  });
}

async function decodeCmyk(file: Uint8Array, size: ImageSize): Promise<Pixels> {
  if (size.width * size.height > MAX_CMYK_PIXELS) {
    throw invalidMedia(
      `The CMYK image in the JPEG file has ${size.width} × ${size.height} pixels; ` +
        `at most ${MAX_CMYK_PIXELS / 1e6} megapixels are allowed for CMYK.`,
    );
  }
  const { default: { decode } } = await import("jpeg-js");
  const { width, height, data } = decode(file, {
    useTArray: true,
    formatAsRGBA: false,
    maxResolutionInMP: Infinity,
    maxMemoryUsageInMB: Infinity,
  });
  return { width, height, channels: 3, data: data as Uint8Array<ArrayBuffer> };
}

/** What the markers of a file say about its image. */
interface JpegMarkers {
  readonly width: number;
  readonly height: number;
  /** 1 for grey, 3 for colour, 4 for CMYK. */
  readonly numComponents: number;
  /** Whether there is an Adobe segment, which defines the meaning of four components. */
  readonly isAdobe: boolean;
  readonly orientation: Orientation;
  /** What makes the coding unsupported, as the end of a sentence. */
  readonly unread: string | undefined;
  /** Number of passes over the image: usually one, or about ten if it is progressive. */
  readonly numScans: number;
  /**
   * Whether the end marker is missing from an image that a single pass describes. With several passes, the decoder
   * would not notice that a pass is missing.
   */
  readonly lacksEnd: boolean;
}

/** Whether a marker starts a frame; C4 (tables), C8 (extensions) and CC (arithmetic conditioning) do not. */
const isFrame = (marker: number) =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
/** Whether no length follows a marker: the restarts, the start of the image, and TEM. */
const isBare = (marker: number) => marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);

/** Markers of frames that are not supported: lossless, hierarchical (several sizes), and with arithmetic codes. */
const LOSSLESS = [0xc3, 0xc7, 0xcb, 0xcf];
const HIERARCHICAL = [0xc5, 0xc6, 0xcd, 0xce];
const ARITHMETIC = [0xc9, 0xca];

/** What makes a frame's coding unsupported, as the end of a sentence. */
function describeUnreadFrame(marker: number, bits: number): string | undefined {
  if (LOSSLESS.includes(marker)) return "is lossless JPEG";
  if (HIERARCHICAL.includes(marker)) return "is hierarchical JPEG";
  if (ARITHMETIC.includes(marker)) return "has arithmetic codes";
  return bits === 8 ? undefined : `has samples of ${bits} bits`;
}

const BASELINE = 0xc0;
const EXTENDED = 0xc1;
const START_OF_SCAN = 0xda;
const END_OF_IMAGE = 0xd9;
const APP1 = 0xe1;
const APP14 = 0xee;

/** @throws {HearthError} `invalid_media` when no frame is found. */
function readJpegMarkers(file: Uint8Array): JpegMarkers {
  const view = viewData(file);
  let frame: Pick<JpegMarkers, "width" | "height" | "numComponents" | "unread"> | undefined;
  let exif: Uint8Array | undefined;
  let xmp: Uint8Array | undefined;
  let isAdobe = false;
  let numScans = 0;
  let [isSequential, hasAll, hasEnd] = [false, false, false];
  for (let at = findMarker(file, 2); at !== -1; at = findMarker(file, at)) {
    const marker = file[at + 1]!;
    at += 2;
    hasEnd = marker === END_OF_IMAGE;
    if (hasEnd) break;
    if (isBare(marker)) continue;
    if (at + 2 > file.length) break;
    if (isFrame(marker) && frame === undefined) {
      frame = {
        height: view.getUint16(at + 3),
        width: view.getUint16(at + 5),
        numComponents: view.getUint8(at + 7),
        unread: describeUnreadFrame(marker, view.getUint8(at + 2)),
      };
      isSequential = marker === BASELINE || marker === EXTENDED;
    }
    if (marker === APP1) {
      const content = file.subarray(at + 2, at + view.getUint16(at));
      if (hasText(content, 0, "Exif\0\0")) exif ??= content;
      if (hasText(content, 0, "http://ns.adobe.com/xap/1.0/\0")) xmp ??= content;
    }
    if (marker === APP14 && hasText(file, at + 2, "Adobe")) isAdobe = true;
    if (marker === START_OF_SCAN) {
      numScans++;
      hasAll = isSequential && view.getUint8(at + 2) === frame?.numComponents;
    }
    at += view.getUint16(at);
  }
  if (frame === undefined) throw invalidMedia("The JPEG file has no image in it.");
  return {
    ...frame,
    isAdobe,
    orientation: findOrientation({ exif, xmp }),
    numScans,
    lacksEnd: hasAll && !hasEnd,
  };
}

/** Finds the next marker: FF and a byte other than 0 and FF. */
function findMarker(file: Uint8Array, from: number): number {
  for (let at = from;; at++) {
    at = file.indexOf(0xff, at);
    if (at === -1 || at + 1 >= file.length) return -1;
    if (file[at + 1] !== 0 && file[at + 1] !== 0xff) return at;
  }
}
