/**
 * Reads JPEG files: grey, YCbCr and RGB by MozJPEG, whose pixels equal libjpeg-turbo's; CMYK and YCCK by jpeg-js.
 *
 * @module
 */
import type { MozJPEGModule } from "@jsquash/jpeg/codec/dec/mozjpeg_dec.js";
import type { Pixels } from "../pixels.ts";
import { type ImageFormat, type ImageSize, invalidImage } from "./format.ts";
import { readJpegMarkers } from "./jpeg_markers.ts";
import { WasmImageDecoder } from "./wasm_codec.ts";

/** Bounds the scans of large images: encoders write about ten; more only keep the decoder busy. */
const MAX_SCANS = 100;
const MAX_SCANNED_PIXELS = 2e9;
/** Limit for jpeg-js, which takes 60 bytes per pixel. */
const MAX_CMYK_PIXELS = 16e6;

const decoder = new WasmImageDecoder<MozJPEGModule>({
  locate: () => import.meta.resolve("@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm"),
  load: async () => (await import("@jsquash/jpeg/codec/dec/mozjpeg_dec.js")).default,
  cutOff: "Premature end of JPEG file",
});

/** JPEG, baseline and progressive. */
export const JPEG: ImageFormat = {
  name: "JPEG",
  matches: (file) => file[0] === 0xff && file[1] === 0xd8 && file[2] === 0xff,
  readSize: readJpegMarkers,
  decode,
};

async function decode(file: Uint8Array<ArrayBuffer>, size: ImageSize): Promise<Pixels> {
  const { numComponents, isAdobe, numScans } = readJpegMarkers(file);
  const maxScans = Math.min(MAX_SCANS, Math.floor(MAX_SCANNED_PIXELS / (size.width * size.height)));
  if (numScans > maxScans) {
    throw invalidImage(
      `The JPEG file has ${numScans} passes over its image; at most ${maxScans} are read of its size.`,
    );
  }
  if (numComponents === 4 && !isAdobe) {
    throw invalidImage("The JPEG file has four colours, and no Adobe segment says what they mean.");
  }
  if (numComponents === 4) return await decodeCmyk(file, size);
  return await decoder.decode((codec) => codec.decode(file, false), { name: "JPEG", ...size });
}

async function decodeCmyk(file: Uint8Array, size: ImageSize): Promise<Pixels> {
  if (size.width * size.height > MAX_CMYK_PIXELS) {
    throw invalidImage(
      `The JPEG image is of CMYK and has ${size.width} × ${size.height} pixels; ` +
        `at most ${MAX_CMYK_PIXELS / 1e6} megapixels of that kind are read.`,
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
