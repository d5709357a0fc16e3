/**
 * Images and recordings of few bytes that are much work.
 *
 * @module
 */
import { joinBytes } from "../../src/join_bytes.ts";
import { FRAME_SAMPLES, makeFlacSilence } from "../fixtures/flac_silence.ts";
import { greyJpeg, pngFile, zeros } from "../fixtures/image_writer.ts";

const SIDE = 8_000;
const SAMPLE_RATE_KHZ = 16;

/** Images of 64 megapixels in two formats, as data URLs. No two have the same bytes. */
export function largeImages(count: number): string[] {
  const png = pngFile(SIDE, SIDE, [zeros(SIDE * (1 + SIDE))]);
  const files = [greyJpeg(SIDE, SIDE), png];
  return Array.from({ length: count }, (_, index) => {
    const file = joinBytes([files[index % files.length]!, Uint8Array.of(index)]);
    return `data:image/${index % files.length === 0 ? "jpeg" : "png"};base64,${file.toBase64()}`;
  });
}

/** Eight hours of silence as FLAC, 16 kHz. */
export function longRecording(): Uint8Array<ArrayBuffer> {
  const numFrames = Math.floor(8 * 3600 * SAMPLE_RATE_KHZ * 1000 / FRAME_SAMPLES);
  return makeFlacSilence({ numFrames, sampleRateKhz: SAMPLE_RATE_KHZ });
}
