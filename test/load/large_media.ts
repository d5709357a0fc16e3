/**
 * Images and recordings of few bytes that need much work.
 *
 * @module
 */
import { joinBytes } from "../../src/base/bytes.ts";
import { FRAME_SAMPLES, makeFlacSilence } from "../fixtures/audio/flac_silence.ts";
import { greyJpeg, pngFile, zeros } from "../fixtures/images/image_writer.ts";

const SAMPLE_RATE_KHZ = 16;

/** Images of side × side pixels in two formats, as data URLs. No two have the same bytes. */
export function plainImages(count: number, side: number): string[] {
  const png = pngFile(side, side, [zeros(side * (1 + side))]);
  const files = [greyJpeg(side, side), png];
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
