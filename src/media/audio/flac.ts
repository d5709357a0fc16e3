/**
 * Reads FLAC files (RFC 9639), and decodes the FLAC frames of other containers.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { decodeFlacFrame, type FlacStream, isFlacFrame, splitFlac } from "./flac_frames.ts";
import { skipId3 } from "./mp3.ts";
import { type Decoding, ErrorBudget, type Sound } from "./sound.ts";

const MAGIC = [0x66, 0x4c, 0x61, 0x43];
const BLOCK_HEADER_BYTES = 4;
/** The magic and the `STREAMINFO` block, which is always the first. */
const HEAD_BYTES = MAGIC.length + BLOCK_HEADER_BYTES + 34;
const IS_LAST_BLOCK = 0x80;

/** The offset of the FLAC stream in a file; `undefined` if there is none. */
export function findFlac(file: Uint8Array): number | undefined {
  const start = skipId3(file);
  return MAGIC.every((byte, i) => file[start + i] === byte) ? start : undefined;
}

/** Samples per channel from a FLAC file's header: 0 if it is not FLAC, infinite if unknown. */
export function countFlacSamples(file: Uint8Array): number {
  const start = findFlac(file);
  if (start === undefined || file.length < start + HEAD_BYTES) return 0;
  return readSampleCount(file.subarray(start)) || Infinity;
}

/** @param head the magic and the first block. The sample count in that block has 36 bits. */
function readSampleCount(head: Uint8Array): number {
  return (head[21]! & 15) * 2 ** 32 + new DataView(head.buffer, head.byteOffset).getUint32(22);
}

/** @param head as in {@linkcode readSampleCount}. */
function readStream(head: Uint8Array): FlacStream {
  const view = new DataView(head.buffer, head.byteOffset);
  return {
    sampleRateHz: view.getUint32(18) >>> 12,
    bitsPerSample: (view.getUint16(20) >> 4 & 31) + 1,
  };
}

/**
 * Decodes a FLAC file.
 *
 * @throws {HearthError} `invalid_media` when there are too many damaged frames.
 */
export async function* readFlac(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  const stream = file.subarray(findFlac(file) ?? file.length);
  yield* decodeFlac(stream, splitFlac(stream.subarray(findFrames(stream))), decoding);
}

/** A container's information about its FLAC frames. */
interface FlacOptions extends Decoding {
  /** Whether the end of the container is missing. A cut within a frame is always detected. */
  readonly isCut?: boolean;
}

/**
 * Decodes FLAC frames, leaving out damaged ones. If damage or a cut leaves fewer samples than the metadata promise, the
 * file counts as truncated. Too few samples alone do not mean that: programs that trim a recording copy whole frames,
 * and leave the metadata unchanged.
 *
 * @param setup the magic and the metadata; only the first block of the metadata is used.
 * @param frames whole frames, or chunks of damaged data.
 * @throws {HearthError} `invalid_media` when there are too many damaged frames.
 */
export async function* decodeFlac(
  setup: Uint8Array,
  frames: Iterable<Uint8Array>,
  { isCut = false, onTruncated }: FlacOptions,
): AsyncGenerator<Sound, void> {
  if (setup.length < HEAD_BYTES) throw invalidMedia("The FLAC stream ends in its header.");
  const head = setup.subarray(0, HEAD_BYTES);
  const promised = readSampleCount(head);
  const budget = new ErrorBudget();
  let numSamples = 0;
  let isDamaged = isCut;
  const stream = readStream(head);
  for (const frame of frames) {
    try {
      if (!isFlacFrame(frame)) throw new RangeError("A frame's checksum is wrong.");
      const sound = decodeFlacFrame(frame, stream);
      numSamples += sound.channels[0]!.length;
      yield sound;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      isDamaged = true;
      budget.spend([error]);
    }
  }
  if (isDamaged && numSamples < promised) {
    onTruncated(`its header promises ${promised} samples, and ${numSamples} can be decoded`);
  }
}

/** Finds the offset after the metadata. The metadata may hold images, which must not be searched for frames. */
function findFrames(stream: Uint8Array): number {
  let at = MAGIC.length;
  let isLast = false;
  while (!isLast && at + BLOCK_HEADER_BYTES <= stream.length) {
    isLast = (stream[at]! & IS_LAST_BLOCK) !== 0;
    const size = stream[at + 1]! << 16 | stream[at + 2]! << 8 | stream[at + 3]!;
    at += BLOCK_HEADER_BYTES + size;
  }
  return at;
}
