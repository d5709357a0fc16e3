/**
 * Reads AAC files whose frames have headers of their own (ADTS: ISO/IEC 13818-7, section 6.2).
 *
 * @module
 */
import { decodeAac } from "./aac.ts";
import { SAMPLE_RATES_HZ } from "./aac/bands.ts";
import { skipId3 } from "./id3.ts";
import { invalidAudio, type Sound } from "./sound.ts";

interface AdtsFrame {
  readonly data: Uint8Array;
  readonly end: number;
  readonly objectType: number;
  readonly sampleRateHz: number;
}

const SYNC_BYTE = 0xff;
const HEADER_BYTES = 7;
const CHECKSUM_BYTES = 2;
const LOW_COMPLEXITY = 2;
/** Consecutive frames needed to detect AAC. */
const FRAMES_TO_BELIEVE = 3;
const MAX_JUNK_BYTES = 1 << 20;

/** Whether a file begins as AAC with frame headers does. */
export function isAdts(file: Uint8Array): boolean {
  return beginsStream(file, skipId3(file));
}

/**
 * Decodes an AAC file. Bytes between its frames are skipped.
 *
 * @throws {HearthError} `invalid_media` when it is not of the LC profile, or HE-AAC upon it, or most of it is damaged.
 */
export async function* readAdts(file: Uint8Array<ArrayBuffer>): AsyncGenerator<Sound, void> {
  const start = skipId3(file);
  const first = parseFrame(file, start);
  if (first === undefined) throw invalidAudio("The AAC file holds no frames.");
  const { objectType, sampleRateHz } = first;
  if (objectType !== LOW_COMPLEXITY) {
    throw invalidAudio(`The AAC file is of object type ${objectType}; AAC-LC or HE-AAC is wanted.`);
  }
  yield* decodeAac({ sampleRateHz }, listFrames(file, start, sampleRateHz));
}

function* listFrames(
  file: Uint8Array,
  start: number,
  sampleRateHz: number,
): Generator<Uint8Array> {
  let at: number | undefined = start;
  while (at !== undefined) {
    const frame: AdtsFrame | undefined = parseFrame(file, at);
    if (frame?.sampleRateHz === sampleRateHz) {
      yield frame.data;
      at = frame.end;
    } else {
      at = findStream(file, at + 1);
    }
  }
}

function findStream(file: Uint8Array, at: number): number | undefined {
  for (
    let start = file.indexOf(SYNC_BYTE, at);
    start >= 0 && start < at + MAX_JUNK_BYTES;
    start = file.indexOf(SYNC_BYTE, start + 1)
  ) {
    if (beginsStream(file, start)) return start;
  }
  return undefined;
}

function beginsStream(file: Uint8Array, start: number): boolean {
  let at = start;
  for (let i = 0; i < FRAMES_TO_BELIEVE; i++) {
    const frame = parseFrame(file, at);
    if (frame === undefined) return false;
    at = frame.end;
    // A file may be shorter than that.
    if (at === file.length) return true;
  }
  return true;
}

function parseFrame(file: Uint8Array, at: number): AdtsFrame | undefined {
  const [sync, flags, kind, length0, length1, length2] = file.subarray(at, at + HEADER_BYTES);
  if (sync !== SYNC_BYTE || length2 === undefined || (flags! & 0xf6) !== 0xf0) return undefined;
  const sampleRateHz = SAMPLE_RATES_HZ[kind! >> 2 & 15];
  const numBytes = (length0! & 3) << 11 | length1! << 3 | length2 >> 5;
  const headerBytes = HEADER_BYTES + ((flags! & 1) === 0 ? CHECKSUM_BYTES : 0);
  if (sampleRateHz === undefined || numBytes <= headerBytes || at + numBytes > file.length) {
    return undefined;
  }
  return {
    data: file.subarray(at + headerBytes, at + numBytes),
    end: at + numBytes,
    objectType: 1 + (kind! >> 6),
    sampleRateHz,
  };
}
