/**
 * Reads AAC files in which each frame has its own header (ADTS: ISO/IEC 13818-7, section 6.2).
 *
 * @module
 */
import { decodeAac, nameObjectType } from "./aac.ts";
import { SAMPLE_RATES_HZ } from "./aac/bands.ts";
import { type Decoding, invalidAudio, type Sound, UnreadSoundError } from "./sound.ts";
import { findFirstFrame, findFrames, SYNC_BYTE, type SyncFrame } from "./sync_frames.ts";

interface AdtsFrame extends SyncFrame {
  /** The frame without its header. */
  readonly data: Uint8Array;
  readonly objectType: number;
  readonly sampleRateHz: number;
}

const HEADER_BYTES = 7;
const CHECKSUM_BYTES = 2;
const LOW_COMPLEXITY = 2;
const MAX_JUNK_BYTES = 1 << 20;
/** The frame's length is a field of 13 bits. */
const MAX_FRAME_BYTES = 1 << 13;

/** The offset of the first frame, if the file is AAC with frame headers. */
export function findAdts(file: Uint8Array): number | undefined {
  return findFirstFrame(file, parseFrame);
}

/**
 * Decodes an AAC file. Bytes between its frames are skipped.
 *
 * @throws {HearthError} `invalid_media` unless the stream has the LC profile, alone or as the core of HE-AAC, or when
 * most of it is damaged.
 */
export async function* readAdts(
  file: Uint8Array<ArrayBuffer>,
  { onTruncated }: Decoding,
): AsyncGenerator<Sound, void> {
  const start = findAdts(file);
  if (start === undefined) throw invalidAudio("The AAC file holds no frames.");
  const { objectType, sampleRateHz } = parseFrame(file, start)!;
  if (objectType !== LOW_COMPLEXITY) {
    throw new UnreadSoundError(
      `The AAC file is ${nameObjectType(objectType)}; AAC-LC or HE-AAC is wanted.`,
    );
  }
  yield* decodeAac({ sampleRateHz }, listFrames(file, { start, sampleRateHz, onTruncated }));
}

function* listFrames(
  file: Uint8Array,
  { start, sampleRateHz, onTruncated }: Decoding & {
    readonly start: number;
    readonly sampleRateHz: number;
  },
): Generator<Uint8Array> {
  let at: number | undefined = start;
  while (at !== undefined) {
    const frame: AdtsFrame | undefined = parseFrame(file, at);
    if (frame?.sampleRateHz === sampleRateHz) {
      yield frame.data;
      at += frame.numBytes;
    } else {
      const isHeader = at < file.length && file[at] === SYNC_BYTE &&
        (file[at + 1]! & 0xf6) === 0xf0;
      if (isHeader && file.length - at < MAX_FRAME_BYTES) onTruncated("its last frame is cut");
      at = findFrames(file, at + 1, { maxBytes: MAX_JUNK_BYTES, parse: parseFrame });
    }
  }
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
    numBytes,
    kind: kind! >> 2,
    objectType: 1 + (kind! >> 6),
    sampleRateHz,
  };
}
