/**
 * Reads FLAC (RFC 9639), in its own container and in Ogg.
 *
 * @module
 */
import { skipId3 } from "./sync_frames.ts";
import { ErrorBudget, invalidAudio, type Sound } from "./sound.ts";

const MAGIC = [0x66, 0x4c, 0x61, 0x43];
const BLOCK_HEADER_BYTES = 4;
/** The magic and the `STREAMINFO` block, which is always the first. */
const HEAD_BYTES = MAGIC.length + BLOCK_HEADER_BYTES + 34;
const IS_LAST_BLOCK = 0x80;
/** Bytes per piece: of silence they can be hundreds of frames of 65,535 samples. */
const PIECE_BYTES = 4_096;

/**
 * A frame's header and more bytes than the parser looks at. The parser takes a frame for whole where the next header
 * begins, and has no other end for a last frame of a dozen bytes, as silence has.
 */
const END_MARK = Uint8Array.of(0xff, 0xf8, 0xc5, 0x08, 0, 0x6f, ...new Uint8Array(16));

/** Where the FLAC stream of a file begins. */
export function findFlac(file: Uint8Array): number | undefined {
  const start = skipId3(file);
  return MAGIC.every((byte, i) => file[start + i] === byte) ? start : undefined;
}

/** Samples per channel by a FLAC file's header: 0 if it is not FLAC, infinite if unknown. */
export function countFlacSamples(file: Uint8Array): number {
  const start = findFlac(file);
  if (start === undefined || file.length < start + HEAD_BYTES) return 0;
  return readSampleCount(file.subarray(start)) || Infinity;
}

/** @param head begins with the magic and the first block, whose sample count has 36 bits. */
function readSampleCount(head: Uint8Array): number {
  return (head[21]! & 15) * 2 ** 32 + new DataView(head.buffer, head.byteOffset).getUint32(22);
}

/**
 * Decodes a FLAC file.
 *
 * @throws {HearthError} `invalid_media` when the file was cut or is damaged.
 */
export async function* readFlac(file: Uint8Array<ArrayBuffer>): AsyncGenerator<Sound, void> {
  const stream = file.subarray(findFlac(file) ?? file.length);
  yield* decodeFlac(stream, split(stream.subarray(findFrames(stream))));
}

/**
 * Decodes FLAC frames.
 *
 * @param setup the magic and the metadata, of which only the first block is used.
 * @param pieces the frames, cut anywhere.
 * @throws {HearthError} `invalid_media` when there is less than the metadata promises.
 */
export async function* decodeFlac(
  setup: Uint8Array,
  pieces: Iterable<Uint8Array>,
): AsyncGenerator<Sound, void> {
  if (setup.length < HEAD_BYTES) throw invalidAudio("The FLAC stream ends in its header.");
  const head = setup.slice(0, HEAD_BYTES);
  head[MAGIC.length]! |= IS_LAST_BLOCK;
  const promised = readSampleCount(head);
  const budget = new ErrorBudget();
  let numSamples = 0;
  const { FLACDecoder } = await import("@wasm-audio-decoders/flac");
  const decoder = new FLACDecoder();
  await decoder.ready;
  try {
    await decoder.decode(head);
    for (const piece of withEndMark(pieces)) {
      const { channelData, sampleRate, errors } = await decoder.decode(piece);
      budget.spend(errors);
      numSamples += channelData[0]?.length ?? 0;
      yield { channels: channelData, sampleRateHz: sampleRate };
    }
  } finally {
    decoder.free();
  }
  if (numSamples < promised) {
    throw invalidAudio(
      `The FLAC file was cut or is damaged: its header promises ${promised} samples, ` +
        `and ${numSamples} can be decoded.`,
    );
  }
}

/** The end of the metadata: a decoder would search its images for frames. */
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

function* withEndMark(pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
  yield* pieces;
  yield END_MARK;
}

function* split(frames: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < frames.length; at += PIECE_BYTES) {
    yield frames.subarray(at, at + PIECE_BYTES);
  }
}
