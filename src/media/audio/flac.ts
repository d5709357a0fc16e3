/**
 * Reads FLAC files (RFC 9639), and decodes the FLAC frames of other containers.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import {
  decodeFlacFrame,
  isFlacFrame,
  isShortFrame,
  makeSilentFrame,
  splitFlac,
} from "./flac_frames.ts";
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
function readShape(head: Uint8Array): { numChannels: number; bitsPerSample: number } {
  const bits = new DataView(head.buffer, head.byteOffset).getUint16(20);
  return { numChannels: (bits >> 9 & 7) + 1, bitsPerSample: (bits >> 4 & 31) + 1 };
}

function readSampleRate(head: Uint8Array): number {
  return new DataView(head.buffer, head.byteOffset).getUint32(18) >>> 12;
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

/** Bit depths that the WebAssembly decoder decodes correctly; `flac_frames.ts` decodes frames of other depths. */
const WHOLE_BYTES: readonly number[] = [16, 24];

/** A container's information about its FLAC frames. */
interface FlacOptions extends Decoding {
  /** Whether the end of the container is missing. A cut within a frame is always detected. */
  readonly isCut?: boolean;
}

/** Decodes the frames of one stream. */
interface FrameDecoder {
  decode(
    frame: Uint8Array,
  ): Promise<Sound & { readonly errors: readonly { readonly message: string }[] }>;
  free(): void;
}

/**
 * Decodes FLAC frames, leaving out damaged ones. If damage or a cut leaves fewer samples than the metadata promise, the
 * file counts as truncated. Too few samples alone do not mean that: programs that trim a recording copy whole frames,
 * and leave the metadata unchanged.
 *
 * @param setup the magic and the metadata; only the first block of the metadata is used.
 * @param frames whole frames.
 * @throws {HearthError} `invalid_media` when there are too many damaged frames.
 */
export async function* decodeFlac(
  setup: Uint8Array,
  frames: Iterable<Uint8Array>,
  { isCut = false, onTruncated }: FlacOptions,
): AsyncGenerator<Sound, void> {
  if (setup.length < HEAD_BYTES) throw invalidMedia("The FLAC stream ends in its header.");
  const head = setup.slice(0, HEAD_BYTES);
  head[MAGIC.length]! |= IS_LAST_BLOCK;
  const promised = readSampleCount(head);
  const budget = new ErrorBudget();
  let numSamples = 0;
  let isDamaged = isCut;
  const { bitsPerSample } = readShape(head);
  const isWhole = WHOLE_BYTES.includes(bitsPerSample);
  const decoder = isWhole ? await createWasmDecoder(head) : createFrameDecoder(head);
  try {
    for (const frame of frames) {
      if (!isFlacFrame(frame)) {
        isDamaged = true;
        budget.spend([{ message: "A frame's checksum is wrong." }]);
        continue;
      }
      const { channels, sampleRateHz, errors } = await decoder.decode(frame);
      isDamaged ||= errors.length > 0;
      budget.spend(errors);
      numSamples += channels[0]?.length ?? 0;
      yield { channels, sampleRateHz };
    }
  } finally {
    decoder.free();
  }
  if (isDamaged && numSamples < promised) {
    onTruncated(`its header promises ${promised} samples, and ${numSamples} can be decoded`);
  }
}

async function createWasmDecoder(head: Uint8Array): Promise<FrameDecoder> {
  const { FLACDecoder } = await import("@wasm-audio-decoders/flac");
  const decoder = new FLACDecoder();
  await decoder.ready;
  // The decoder needs the header, because frames may omit the sample rate and the bit depth. The package's own parser
  // would skip the header.
  await decoder.decodeFrames([head]);
  const { bitsPerSample } = readShape(head);
  let isFirst = true;
  return {
    decode: async (frame) => {
      if (isFirst && isShortFrame(frame)) {
        // For a frame as short as this, libFLAC would allocate a buffer and then write past its end. Decoding a longer
        // frame first makes it allocate a longer buffer, which it keeps.
        await decoder.decodeFrames([makeSilentFrame(readShape(head), frame)]);
      }
      isFirst = false;
      const { channelData, sampleRate, errors } = await decoder.decodeFrames([frame]);
      for (const samples of channelData) scaleExactly(samples, bitsPerSample);
      return { channels: channelData, sampleRateHz: sampleRate, errors };
    },
    free: () => decoder.free(),
  };
}

/**
 * Rescales samples so that the smallest possible sample is -1, as in all other decoders. The WebAssembly decoder
 * divides by the largest possible sample instead.
 */
function scaleExactly(samples: Float32Array, bitsPerSample: number): void {
  const full = 2 ** (bitsPerSample - 1);
  for (let i = 0; i < samples.length; i++) {
    samples[i] = Math.round(samples[i]! * (full - 1)) / full;
  }
}

function createFrameDecoder(head: Uint8Array): FrameDecoder {
  const stream = {
    bitsPerSample: readShape(head).bitsPerSample,
    sampleRateHz: readSampleRate(head),
  };
  return {
    decode: (frame) => {
      try {
        return Promise.resolve({ ...decodeFlacFrame(frame, stream), errors: [] });
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        return Promise.resolve({
          channels: [],
          sampleRateHz: stream.sampleRateHz,
          errors: [error],
        });
      }
    },
    free: () => {},
  };
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
