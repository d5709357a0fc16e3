/**
 * Decodes codings that several containers share: PCM, G.711, ADPCM, GSM and MPEG audio.
 *
 * @module
 */
import {
  APPLE_IMA_BYTES,
  type BlockDecoder,
  createAppleIma,
  createMsAdpcm,
  createWavIma,
} from "./adpcm.ts";
import { createGsm, createWavGsm, GSM_FRAME_BYTES, GSM_WAV_BYTES } from "./gsm.ts";
import { readMp3 } from "./mp3.ts";
import { checkChannels, readPcm, type SampleCoding, type SampleFormat } from "./pcm.ts";
import { type Decoding, invalidAudio, type Sound, UnreadSoundError } from "./sound.ts";

/** Codings that store sound in blocks. */
type BlockCoding = "IMA ADPCM" | "Apple IMA ADPCM" | "Microsoft ADPCM" | "GSM" | "GSM in WAV";

/** How a container's sound is stored. */
export type StoredFormat = SampleFormat<SampleCoding | BlockCoding | "MPEG audio">;

const BLOCKS_PER_CHUNK = 64;

/**
 * Decodes the sound of a file.
 *
 * @throws {HearthError} `invalid_media` when the format is not supported.
 */
export async function* readStored(
  data: Uint8Array<ArrayBuffer>,
  format: StoredFormat,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  const { coding, container, encoding, numChannels, sampleRateHz } = format;
  if (coding === "MPEG audio") {
    yield* readMp3(data, decoding);
  } else if (typeof coding === "string") {
    checkChannels(format);
    yield* readBlocks(data, createBlocks(coding, format));
  } else if (coding === undefined) {
    throw new UnreadSoundError(
      `The ${container} file's sound is ${encoding}; PCM, A-law, mu-law, ADPCM, GSM 6.10 or MP3 is expected.`,
    );
  } else {
    yield* readPcm(data, { ...format, coding });
  }

  function* readBlocks(
    bytes: Uint8Array,
    { decode, numBytes }: { readonly decode: BlockDecoder; readonly numBytes: number },
  ): Generator<Sound, void> {
    let chunks: Int16Array[][] = [];
    for (let at = 0; at < bytes.length; at += numBytes) {
      chunks.push(decode(bytes.subarray(at, at + numBytes)));
      if (chunks.length < BLOCKS_PER_CHUNK && at + numBytes < bytes.length) continue;
      yield { channels: joinChannels(chunks, numChannels), sampleRateHz };
      chunks = [];
    }
  }
}

function joinChannels(chunks: readonly Int16Array[][], numChannels: number): Float32Array[] {
  const length = chunks.reduce((sum, [first]) => sum + (first?.length ?? 0), 0);
  return Array.from({ length: numChannels }, (_, channel) => {
    const samples = new Float32Array(length);
    let at = 0;
    for (const chunk of chunks) {
      for (const value of chunk[channel] ?? chunk[0]!) samples[at++] = value / 2 ** 15;
    }
    return samples;
  });
}

/** The decoder for a coding's blocks, and their size. */
function createBlocks(
  coding: BlockCoding,
  { container, numChannels, blockBytes = 0 }: StoredFormat,
): { readonly decode: BlockDecoder; readonly numBytes: number } {
  switch (coding) {
    case "Apple IMA ADPCM":
      return { decode: createAppleIma(numChannels), numBytes: APPLE_IMA_BYTES * numChannels };
    case "GSM":
    case "GSM in WAV":
      if (numChannels !== 1) {
        throw invalidAudio(
          `The ${container} file's GSM has ${numChannels} channels; 1 is expected.`,
        );
      }
      return coding === "GSM"
        ? { decode: createGsm(), numBytes: GSM_FRAME_BYTES }
        : { decode: createWavGsm(), numBytes: GSM_WAV_BYTES };
  }
  const minBytes = 8 * numChannels;
  if (blockBytes < minBytes) {
    throw invalidAudio(
      `The ${container} file gives ${blockBytes} bytes to a block; at least ${minBytes} are expected.`,
    );
  }
  const create = coding === "IMA ADPCM" ? createWavIma : createMsAdpcm;
  return { decode: create(numChannels), numBytes: blockBytes };
}
