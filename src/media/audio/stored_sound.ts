/**
 * Decodes the codings that several containers share: PCM, G.711 (A-law and mu-law), ADPCM, GSM and MPEG audio. Also
 * decodes the PCM and G.711 of live connections.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import {
  APPLE_IMA_BYTES,
  type BlockDecoder,
  createAppleIma,
  createGsm,
  createMsAdpcm,
  createWavGsm,
  createWavIma,
  GSM_FRAME_BYTES,
  GSM_WAV_BYTES,
} from "./block_codecs.ts";
import { readMp3 } from "./mp3.ts";
import { checkSampleRate, type Decoding, type Sound, UnreadSoundError } from "./sound.ts";
import { joinBytes } from "../../base/bytes.ts";

/** The layout of a container's sound. Channels are interleaved. */
interface SampleFormat<Coding = SampleCoding> {
  /** Name of the container, for messages: `WAV`. */
  readonly container: string;
  readonly numChannels: number;
  readonly sampleRateHz: number;
  /** Bytes of a PCM frame or an ADPCM block with all channels, if the file gives them. */
  readonly blockBytes?: number | undefined;
  /** Absent if the coding is not supported. */
  readonly coding: Coding | undefined;
  /** The file's own name for the coding, for messages: `3 with 32 bits`. */
  readonly encoding: string;
}

/** Reads the sample at an offset, full scale at 1. */
type SampleReader = (view: DataView, offset: number) => number;

/** The coding of one sample. */
export interface SampleCoding {
  readonly kind: "signed" | "unsigned" | "float" | "A-law" | "mu-law";
  readonly bytes: number;
  readonly isLittleEndian: boolean;
}

/** Codings that store sound in blocks. */
type BlockCoding = "IMA ADPCM" | "Apple IMA ADPCM" | "Microsoft ADPCM" | "GSM" | "GSM in WAV";

/** The layout of a container's sound, in any coding that {@linkcode readStored} decodes. */
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
    yield* readBlocks(data, createBlockDecoder(coding, format));
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

/** Creates the decoder for a coding's blocks, and computes the size of a block. */
function createBlockDecoder(
  coding: BlockCoding,
  { container, numChannels, blockBytes = 0 }: StoredFormat,
): { readonly decode: BlockDecoder; readonly numBytes: number } {
  switch (coding) {
    case "Apple IMA ADPCM":
      return { decode: createAppleIma(numChannels), numBytes: APPLE_IMA_BYTES * numChannels };
    case "GSM":
    case "GSM in WAV":
      if (numChannels !== 1) {
        throw invalidMedia(
          `The ${container} file's GSM has ${numChannels} channels; 1 is expected.`,
        );
      }
      return coding === "GSM"
        ? { decode: createGsm(), numBytes: GSM_FRAME_BYTES }
        : { decode: createWavGsm(), numBytes: GSM_WAV_BYTES };
  }
  const minBytes = 8 * numChannels;
  if (blockBytes < minBytes) {
    throw invalidMedia(
      `The ${container} file gives ${blockBytes} bytes to a block; at least ${minBytes} are expected.`,
    );
  }
  const create = coding === "IMA ADPCM" ? createWavIma : createMsAdpcm;
  return { decode: create(numChannels), numBytes: blockBytes };
}

/** Maximum number of channels of a file. */
const MAX_CHANNELS = 8;

const FRAMES_PER_CHUNK = 32_768;

/** The reader for samples of a kind and a size; `undefined` if there is none. */
function getSampleReader(
  { kind, bytes, isLittleEndian }: SampleCoding,
): SampleReader | undefined {
  switch (`${kind} ${bytes}`) {
    case "unsigned 1":
      return (view, offset) => (view.getUint8(offset) - 128) / 2 ** 7;
    case "signed 1":
      return (view, offset) => view.getInt8(offset) / 2 ** 7;
    case "signed 2":
      return (view, offset) => view.getInt16(offset, isLittleEndian) / 2 ** 15;
    case "signed 3":
      return isLittleEndian
        ? (view, at) => (view.getInt16(at + 1, true) * 256 + view.getUint8(at)) / 2 ** 23
        : (view, at) => (view.getInt16(at) * 256 + view.getUint8(at + 2)) / 2 ** 23;
    case "signed 4":
      return (view, offset) => view.getInt32(offset, isLittleEndian) / 2 ** 31;
    case "float 4":
      return (view, offset) => view.getFloat32(offset, isLittleEndian);
    case "float 8":
      return (view, offset) => view.getFloat64(offset, isLittleEndian);
    case "A-law 1":
      return (view, offset) => expandALaw(view.getUint8(offset)) / 2 ** 15;
    case "mu-law 1":
      return (view, offset) => expandMuLaw(view.getUint8(offset)) / 2 ** 15;
    default:
      return undefined;
  }
}

/** @throws {HearthError} `invalid_media` when a header gives an impossible number of channels or sample rate. */
function checkChannels(
  { container, numChannels, sampleRateHz }: SampleFormat<unknown>,
): void {
  if (numChannels < 1 || numChannels > MAX_CHANNELS) {
    throw invalidMedia(
      `The ${container} file has ${numChannels} channels; 1 to ${MAX_CHANNELS} are expected.`,
    );
  }
  checkSampleRate(sampleRateHz);
}

/**
 * Decodes whole frames, chunk by chunk.
 *
 * @throws {HearthError} `invalid_media` when the format is not supported.
 */
export function* readPcm(
  data: Uint8Array,
  format: SampleFormat,
): Generator<Sound, void> {
  checkChannels(format);
  const { container, numChannels, sampleRateHz, coding, encoding, blockBytes } = format;
  const read = coding && getSampleReader(coding);
  if (coding === undefined || read === undefined) {
    throw invalidMedia(
      `The ${container} file's sound is ${encoding}; ` +
        "integer PCM of 8, 16, 24 or 32 bits, floating point of 32 or 64, A-law or mu-law is expected.",
    );
  }
  const bytesPerSample = coding.bytes;
  const bytesPerFrame = bytesPerSample * numChannels;
  if ((blockBytes ?? bytesPerFrame) !== bytesPerFrame) {
    throw invalidMedia(
      `The ${container} file gives ${blockBytes} bytes to ${numChannels} samples of ` +
        `${8 * bytesPerSample} bits.`,
    );
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const numFrames = Math.floor(data.length / bytesPerFrame);
  for (let first = 0; first < numFrames; first += FRAMES_PER_CHUNK) {
    const length = Math.min(FRAMES_PER_CHUNK, numFrames - first);
    const channels = Array.from({ length: numChannels }, (_, channel) => {
      const samples = new Float32Array(length);
      let offset = first * bytesPerFrame + channel * bytesPerSample;
      for (let i = 0; i < length; i++, offset += bytesPerFrame) samples[i] = read(view, offset);
      return samples;
    });
    yield { channels, sampleRateHz };
  }
}

/** Decodes A-law: sign, three bits of exponent and four of mantissa, every other bit inverted. */
function expandALaw(code: number): number {
  const bits = code ^ 0x55;
  const exponent = bits >> 4 & 7;
  const mantissa = (bits & 15) << 4;
  const size = exponent === 0 ? mantissa + 8 : mantissa + 0x108 << exponent - 1;
  return bits & 0x80 ? size : -size;
}

/** Decodes mu-law: sign, three bits of exponent and four of mantissa, all inverted. */
function expandMuLaw(code: number): number {
  const bits = ~code;
  const size = (((bits & 15) << 3) + 0x84 << (bits >> 4 & 7)) - 0x84;
  return bits & 0x80 ? -size : size;
}

/** Sound of one channel that arrives over a connection. */
export interface LiveFormat {
  readonly coding: "pcm16" | "mu-law" | "A-law";
  readonly sampleRateHz: number;
}

const NOTHING = new Uint8Array(0);

/** Decodes chunks of bytes that may end anywhere, even within a sample. */
export class LiveDecoder {
  readonly #coding: LiveFormat["coding"];
  /** The first byte of an incomplete sample. */
  #rest = NOTHING;

  constructor({ coding }: LiveFormat) {
    this.#coding = coding;
  }

  /** @returns the samples that are complete; full scale is 2^15. */
  push(bytes: Uint8Array): Int16Array<ArrayBuffer> {
    if (this.#coding === "mu-law") return Int16Array.from(bytes, expandMuLaw);
    if (this.#coding === "A-law") return Int16Array.from(bytes, expandALaw);
    const all = joinBytes([this.#rest, bytes]);
    const numSamples = Math.floor(all.length / 2);
    this.#rest = all.slice(2 * numSamples);
    // Every machine that Deno runs on is little-endian, as the format is.
    return new Int16Array(all.buffer, 0, numSamples);
  }
}
