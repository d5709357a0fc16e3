/**
 * AIFF and AU: big-endian containers of uncompressed sound.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { hasText } from "../file_bytes.ts";
import { readStored, type SampleCoding, type StoredFormat } from "./stored_sound.ts";
import type { Decoding, Sound } from "./sound.ts";

const CHUNK_HEADER_BYTES = 8;
const COMMON_BYTES = 18;
/** Bytes of the offset and the block size that precede the samples. */
const SOUND_HEADER_BYTES = 8;
/** Programs that write to a pipe do not know the size, and write 0 or a size of at least this. */
const UNKNOWN_SIZE = 0x7f00_0000;
/** Codings that store samples in blocks, by their names in AIFF-C, in lower case. */
const BLOCK_CODINGS: Readonly<Record<string, StoredFormat["coding"]>> = {
  "ima4": "Apple IMA ADPCM",
  "gsm ": "GSM",
  "agsm": "GSM",
  ".mp3": "MPEG audio",
};
/** Codings of single samples, by their names in AIFF-C, in lower case. AIFF itself has only `none`. */
const CODINGS: Readonly<Record<string, Omit<SampleCoding, "bytes">>> = {
  "none": { kind: "signed", isLittleEndian: false },
  "twos": { kind: "signed", isLittleEndian: false },
  "in24": { kind: "signed", isLittleEndian: false },
  "in32": { kind: "signed", isLittleEndian: false },
  "sowt": { kind: "signed", isLittleEndian: true },
  "raw ": { kind: "unsigned", isLittleEndian: false },
  "fl32": { kind: "float", isLittleEndian: false },
  "fl64": { kind: "float", isLittleEndian: false },
  "alaw": { kind: "A-law", isLittleEndian: false },
  "ulaw": { kind: "mu-law", isLittleEndian: false },
};

/** Whether a file has the signature of AIFF or AIFF-C. */
export function isAiff(file: Uint8Array): boolean {
  return hasText(file, 0, "FORM") && (hasText(file, 8, "AIFF") || hasText(file, 8, "AIFC"));
}

/**
 * Decodes an AIFF file.
 *
 * @throws {HearthError} `invalid_media` when its encoding is not supported.
 */
export async function* readAiff(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let format: StoredFormat | undefined;
  let data: Uint8Array<ArrayBuffer> | undefined;
  for (let at = 12; at + CHUNK_HEADER_BYTES <= file.length;) {
    const size = view.getUint32(at + 4);
    const start = at + CHUNK_HEADER_BYTES;
    if (hasText(file, at, "COMM")) format = readFormat(file, start, size);
    if (hasText(file, at, "SSND")) data = findData(file, { start, size }, decoding);
    // Chunks are padded to an even size.
    at = start + size + size % 2;
  }
  if (format === undefined || data === undefined) {
    throw invalidMedia("The AIFF file ends before its format or its sound.");
  }
  yield* readStored(data, format, decoding);
}

function readFormat(file: Uint8Array, start: number, size: number): StoredFormat {
  if (size < COMMON_BYTES || start + size > file.length) {
    throw invalidMedia("The AIFF file's format is cut short.");
  }
  const view = new DataView(file.buffer, file.byteOffset + start, size);
  const bits = view.getUint16(6);
  const isCompressed = hasText(file, 8, "AIFC") && size >= COMMON_BYTES + 4;
  const nameAt = start + COMMON_BYTES;
  const name = isCompressed ? String.fromCharCode(...file.subarray(nameAt, nameAt + 4)) : "NONE";
  const coding = CODINGS[name.toLowerCase()];
  // For G.711, the bit depth refers to the samples before compression.
  const isTelephony = coding?.kind === "A-law" || coding?.kind === "mu-law";
  return {
    container: "AIFF",
    numChannels: view.getUint16(0),
    sampleRateHz: readExtended(view, 8),
    coding: coding
      ? { ...coding, bytes: isTelephony ? 1 : Math.ceil(bits / 8) }
      : BLOCK_CODINGS[name.toLowerCase()],
    encoding: `${name.trim()} with ${bits} bits`,
  };
}

/** Reads an 80-bit floating-point number: sign and exponent, then 64 bits of mantissa including its leading 1. */
function readExtended(view: DataView, at: number): number {
  const exponent = view.getUint16(at) - 16_383;
  return (view.getUint32(at + 2) * 2 ** 32 + view.getUint32(at + 6)) * 2 ** (exponent - 63);
}

function findData(
  file: Uint8Array<ArrayBuffer>,
  { start, size }: { readonly start: number; readonly size: number },
  decoding: Decoding,
): Uint8Array<ArrayBuffer> {
  const present = file.length - start;
  const isUnknown = size <= SOUND_HEADER_BYTES || size >= UNKNOWN_SIZE;
  if (size > present && !isUnknown) {
    decoding.onTruncated(`its header promises ${size} bytes of sound, and ${present} are there`);
  }
  const end = isUnknown ? file.length : Math.min(file.length, start + size);
  const skipped = present < SOUND_HEADER_BYTES
    ? 0
    : new DataView(file.buffer, file.byteOffset + start).getUint32(0);
  return file.subarray(Math.min(end, start + SOUND_HEADER_BYTES + skipped), end);
}

const AU_HEADER_BYTES = 24;
const UNKNOWN_AU_SIZE = 0xffff_ffff;
const AU_CODINGS: Readonly<Record<number, readonly [SampleCoding["kind"], bytes: number]>> = {
  1: ["mu-law", 1],
  2: ["signed", 1],
  3: ["signed", 2],
  4: ["signed", 3],
  5: ["signed", 4],
  6: ["float", 4],
  7: ["float", 8],
  27: ["A-law", 1],
};

/** Whether a file has the signature of AU. */
export function isAu(file: Uint8Array): boolean {
  return hasText(file, 0, ".snd");
}

/**
 * Decodes an AU file.
 *
 * @throws {HearthError} `invalid_media` when its encoding is not supported.
 */
export async function* readAu(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  if (file.length < AU_HEADER_BYTES) throw invalidMedia("The AU file ends in its header.");
  const view = new DataView(file.buffer, file.byteOffset);
  const [start, size, encoding] = [view.getUint32(4), view.getUint32(8), view.getUint32(12)];
  const present = Math.max(0, file.length - start);
  if (size > present && size !== UNKNOWN_AU_SIZE) {
    decoding.onTruncated(`it promises ${size} bytes of sound, and ${present} are there`);
  }
  const [kind, bytes] = AU_CODINGS[encoding] ?? [];
  const end = size === UNKNOWN_AU_SIZE ? file.length : Math.min(file.length, start + size);
  yield* readStored(file.subarray(Math.min(start, end), end), {
    container: "AU",
    numChannels: view.getUint32(20),
    sampleRateHz: view.getUint32(16),
    coding: kind && { kind, bytes: bytes!, isLittleEndian: false },
    encoding: `of encoding ${encoding}`,
  }, decoding);
}
