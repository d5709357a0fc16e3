/**
 * Reads the AU files of Sun and NeXT.
 *
 * @module
 */
import { hasText } from "../signature.ts";
import type { SampleCoding } from "./pcm.ts";
import { type Decoding, invalidAudio, type Sound } from "./sound.ts";
import { readStored } from "./stored_sound.ts";

const HEADER_BYTES = 24;
const UNKNOWN_SIZE = 0xffff_ffff;
const CODINGS: Readonly<Record<number, readonly [SampleCoding["kind"], bytes: number]>> = {
  1: ["mu-law", 1],
  2: ["signed", 1],
  3: ["signed", 2],
  4: ["signed", 3],
  5: ["signed", 4],
  6: ["float", 4],
  7: ["float", 8],
  27: ["A-law", 1],
};

/** Whether a file begins as an AU file does. */
export function isAu(file: Uint8Array): boolean {
  return hasText(file, 0, ".snd");
}

/** Decodes an AU file. @throws {HearthError} `invalid_media` when its encoding is none of these. */
export async function* readAu(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  if (file.length < HEADER_BYTES) throw invalidAudio("The AU file ends in its header.");
  const view = new DataView(file.buffer, file.byteOffset);
  const [start, size, encoding] = [view.getUint32(4), view.getUint32(8), view.getUint32(12)];
  const present = Math.max(0, file.length - start);
  if (size > present && size !== UNKNOWN_SIZE) {
    decoding.onTruncated(`it promises ${size} bytes of sound, and ${present} are there`);
  }
  const [kind, bytes] = CODINGS[encoding] ?? [];
  const end = size === UNKNOWN_SIZE ? file.length : Math.min(file.length, start + size);
  yield* readStored(file.subarray(Math.min(start, end), end), {
    container: "AU",
    numChannels: view.getUint32(20),
    sampleRateHz: view.getUint32(16),
    coding: kind && { kind, bytes: bytes!, isLittleEndian: false },
    encoding: `of encoding ${encoding}`,
  }, decoding);
}
