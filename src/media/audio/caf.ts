/**
 * Reads Core Audio files (CAF), as phones send them: PCM, G.711, ADPCM, GSM 6.10, Apple Lossless, FLAC, AAC, Opus and
 * MP3.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { hasText } from "../file_bytes.ts";
import { decodeAac, parseAacConfig } from "./aac.ts";
import { decodeAlac } from "./alac.ts";
import { decodeFlac } from "./flac.ts";
import { readEsDescriptor } from "./mp4_codecs.ts";
import { decodeOpus } from "./opus.ts";
import {
  applyTiming,
  checkSampleRate,
  type Decoding,
  type Sound,
  UnreadSoundError,
} from "./sound.ts";
import { readStored, type StoredFormat } from "./stored_sound.ts";
import { nameFourCharacters } from "./wav.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const FILE_HEADER_BYTES = 8;
const CHUNK_HEADER_BYTES = 12;
const DESCRIPTION_BYTES = 32;
/** Bytes before the samples in a data chunk. */
const EDIT_COUNT_BYTES = 4;
const PACKET_HEADER_BYTES = 24;
const FLAG = { float: 1, littleEndian: 2 } as const;

/** The content of the `desc` chunk. */
interface Description {
  readonly sampleRateHz: number;
  readonly format: string;
  readonly flags: number;
  readonly bytesPerPacket: number;
  readonly framesPerPacket: number;
  readonly numChannels: number;
  readonly bitsPerChannel: number;
}

/** The sizes of packets, and the numbers of samples in the sound and in the silence that the encoder put before it. */
interface PacketTable {
  readonly sizes: Iterable<number>;
  readonly primingFrames: number;
  readonly validFrames: number;
}

/** Whether a file has the signature of CAF. */
export function isCaf(file: Uint8Array): boolean {
  return hasText(file, 0, "caff");
}

/**
 * Decodes a CAF file.
 *
 * @throws {HearthError} `invalid_media` when its format is not supported.
 */
export async function* readCaf(file: Bytes, decoding: Decoding): AsyncGenerator<Sound, void> {
  const chunks = readChunks(file, decoding);
  const head = chunks.get("desc");
  const data = chunks.get("data")?.subarray(EDIT_COUNT_BYTES);
  if (head === undefined || head.length < DESCRIPTION_BYTES || data === undefined) {
    throw invalidMedia("The CAF file ends before its format or its sound.");
  }
  const description = readDescription(head);
  checkSampleRate(description.sampleRateHz);
  const stored = toStored(description);
  if (stored !== undefined) return yield* readStored(data, stored, decoding);
  const { primingFrames, validFrames, sizes } = readPacketTable(chunks.get("pakt"), description);
  const packets = splitPackets(data, sizes, decoding);
  const placement = primingFrames + validFrames === 0 ? {} : {
    skipSeconds: primingFrames / description.sampleRateHz,
    lengthSeconds: validFrames / description.sampleRateHz,
  };
  const setup = chunks.get("kuki") ?? new Uint8Array();
  yield* applyTiming(decodePackets(description, { setup, packets, decoding }), placement);
}

function readChunks(file: Bytes, decoding: Decoding): Map<string, Bytes> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const chunks = new Map<string, Bytes>();
  for (let at = FILE_HEADER_BYTES; at + CHUNK_HEADER_BYTES <= file.length;) {
    const type = String.fromCharCode(...file.subarray(at, at + 4));
    const size = Number(view.getBigInt64(at + 4));
    const start = at + CHUNK_HEADER_BYTES;
    // The data chunk of an unfinished recording has no size, and is the last chunk.
    const end = size < 0 ? file.length : start + size;
    if (end > file.length) {
      decoding.onTruncated(
        `it promises ${size} bytes in ${type}, and ${file.length - start} are there`,
      );
    }
    if (!chunks.has(type)) chunks.set(type, file.subarray(start, Math.min(end, file.length)));
    at = end;
  }
  return chunks;
}

function readDescription(head: Uint8Array): Description {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  return {
    sampleRateHz: view.getFloat64(0),
    format: String.fromCharCode(...head.subarray(8, 12)),
    flags: view.getUint32(12),
    bytesPerPacket: view.getUint32(16),
    framesPerPacket: view.getUint32(20),
    numChannels: view.getUint32(24),
    bitsPerChannel: view.getUint32(28),
  };
}

/** The format of sound stored as samples or equal blocks; `undefined` for packets. */
function toStored(description: Description): StoredFormat | undefined {
  const { format, flags, bytesPerPacket, numChannels, sampleRateHz, bitsPerChannel } = description;
  const common = { container: "CAF", numChannels, sampleRateHz, encoding: format.trim() };
  const isLittleEndian = (flags & FLAG.littleEndian) !== 0;
  switch (format) {
    case "lpcm": {
      const kind = flags & FLAG.float ? "float" : "signed";
      const bytes = Math.floor(bytesPerPacket / numChannels) || Math.ceil(bitsPerChannel / 8);
      return { ...common, blockBytes: bytesPerPacket, coding: { kind, bytes, isLittleEndian } };
    }
    case "alaw":
      return { ...common, coding: { kind: "A-law", bytes: 1, isLittleEndian } };
    case "ulaw":
      return { ...common, coding: { kind: "mu-law", bytes: 1, isLittleEndian } };
    case "ima4":
      return { ...common, coding: "Apple IMA ADPCM" };
    case "ms\0\x02":
      return { ...common, blockBytes: bytesPerPacket, coding: "Microsoft ADPCM" };
    case "ms\0\x11":
      return { ...common, blockBytes: bytesPerPacket, coding: "IMA ADPCM" };
    case "agsm":
      return { ...common, coding: "GSM" };
    case "ms\0\x31":
      return { ...common, coding: "GSM in WAV" };
    case ".mp1":
    case ".mp2":
    case ".mp3":
      return { ...common, coding: "MPEG audio" };
    default:
      return undefined;
  }
}

function readPacketTable(table: Uint8Array | undefined, description: Description): PacketTable {
  const { bytesPerPacket } = description;
  if (table === undefined || table.length < PACKET_HEADER_BYTES) {
    return { sizes: repeat(bytesPerPacket), primingFrames: 0, validFrames: 0 };
  }
  const view = new DataView(table.buffer, table.byteOffset, table.byteLength);
  return {
    sizes: bytesPerPacket > 0 ? repeat(bytesPerPacket) : readSizes(table, description),
    validFrames: Number(view.getBigInt64(8)),
    primingFrames: view.getInt32(16),
  };
}

/**
 * Reads the sizes of packets, as numbers with 7 bits per byte, most significant first. If packets differ in duration, a
 * duration follows each size.
 */
function* readSizes(table: Uint8Array, { framesPerPacket }: Description): Generator<number> {
  let at = PACKET_HEADER_BYTES;
  const next = () => {
    let value = 0;
    for (let byte = 0x80; byte & 0x80 && at < table.length;) {
      byte = table[at++]!;
      value = value * 128 + (byte & 0x7f);
    }
    return value;
  };
  while (at < table.length) {
    yield next();
    if (framesPerPacket === 0) next();
  }
}

function* repeat(size: number): Generator<number> {
  while (size > 0) yield size;
}

function* splitPackets(data: Bytes, sizes: Iterable<number>, decoding: Decoding): Generator<Bytes> {
  let at = 0;
  for (const size of sizes) {
    if (at >= data.length && size > 0) return;
    if (at + size > data.length) {
      decoding.onTruncated(
        `its last packet should have ${size} bytes, and ${data.length - at} are there`,
      );
      return;
    }
    if (size > 0) yield data.subarray(at, at + size);
    at += size;
  }
}

function decodePackets(
  description: Description,
  { setup, packets, decoding }: {
    readonly setup: Bytes;
    readonly packets: Iterable<Bytes>;
    readonly decoding: Decoding;
  },
): AsyncGenerator<Sound, void> {
  const { format, numChannels, sampleRateHz } = description;
  switch (format) {
    case "alac":
      return decodeAlac(setup, packets);
    case "flac": {
      const frames = [...packets];
      return decodeFlac(makeFlacHead(description, frames[0]), frames, decoding);
    }
    case "aac ":
    case "aach":
    case "aacp": {
      const { config } = readEsDescriptor(setup);
      return decodeAac(config.length > 0 ? parseAacConfig(config) : { sampleRateHz }, packets);
    }
    case "opus":
      if (numChannels > 2) {
        throw invalidMedia(`The CAF file's Opus has ${numChannels} channels; 1 or 2 are expected.`);
      }
      return decodeOpus({
        numChannels,
        preSkip: 0,
        gain: 1,
        numStreams: 1,
        numCoupled: numChannels - 1,
        mapping: [0, 1].slice(0, numChannels),
      }, packets);
    default:
      throw new UnreadSoundError(
        `The CAF file's sound is ${
          nameFourCharacters(format)
        }; PCM, A-law, mu-law, ADPCM, GSM 6.10, Apple Lossless, FLAC, AAC, Opus, MP2 or MP3 is expected.`,
      );
  }
}

/** Bit depths by the code in a FLAC frame's header; 0 means the depth in the metadata. */
const FLAC_BITS = [0, 8, 12, 0, 16, 20, 24, 32];

/** Makes FLAC metadata from the description and the first frame, because a CAF file may have none. */
function makeFlacHead(
  { sampleRateHz, numChannels, bitsPerChannel }: Description,
  frame: Uint8Array | undefined,
): Uint8Array {
  const bits = FLAC_BITS[(frame?.[3] ?? 0) >> 1 & 7] || bitsPerChannel || 16;
  const head = new Uint8Array(42);
  head.set(new TextEncoder().encode("fLaC"));
  const view = new DataView(head.buffer);
  // STREAMINFO as the only metadata block, with blocks of 16 samples and more.
  view.setUint32(4, 0x8000_0022);
  view.setUint32(8, 16 << 16 | 0xffff);
  view.setUint32(18, sampleRateHz << 12 | (numChannels - 1) << 9 | (bits - 1) << 4);
  return head;
}
