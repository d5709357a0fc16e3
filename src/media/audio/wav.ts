/**
 * Reads WAV files (RIFF/WAVE), including the big-endian and 64-bit variants, and Wave64: PCM, G.711, ADPCM, GSM 6.10
 * and MP3.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { hasText } from "../file_bytes.ts";
import { readStored, type SampleCoding, type StoredFormat } from "./stored_sound.ts";
import type { Decoding, Sound } from "./sound.ts";

const FORMAT_PCM = 1;
const FORMAT_EXTENSIBLE = 0xfffe;
const CODINGS: Readonly<Record<number, StoredFormat["coding"] | SampleCoding["kind"]>> = {
  [FORMAT_PCM]: "signed",
  0x02: "Microsoft ADPCM",
  0x03: "float",
  0x06: "A-law",
  0x07: "mu-law",
  0x11: "IMA ADPCM",
  0x31: "GSM in WAV",
  0x50: "MPEG audio",
  0x55: "MPEG audio",
};
/** Names of encodings that are not supported, or not in every file. */
const UNREAD: Readonly<Record<number, string>> = {
  0x08: "DTS",
  0x0a: "WMA Voice",
  0x10: "OKI ADPCM",
  0x17: "Dialogic ADPCM",
  0x20: "Yamaha ADPCM",
  0x22: "TrueSpeech",
  0x31: "GSM 6.10",
  0x42: "G.723.1",
  0x45: "G.726",
  0x64: "G.726",
  0x65: "G.722",
  0x83: "G.729",
  0xff: "AAC",
  0x160: "WMA",
  0x161: "WMA",
  0x162: "WMA Pro",
  0x163: "WMA Lossless",
  0x28f: "G.722",
  0x1610: "AAC",
  0x2000: "AC-3",
  0x2001: "DTS",
  0x5346: "Flash ADPCM",
  0x566f: "Vorbis",
  0x674f: "Vorbis",
  0xa109: "Speex",
  0xf1ac: "FLAC",
};
/** The name of an encoding in parentheses, to append to a message; empty if the encoding is not in the table. */
const nameEncoding = (encoding: number) =>
  UNREAD[encoding] === undefined ? "" : ` (${UNREAD[encoding]})`;

/** Names a coding of QuickTime or CAF. A code that begins with `ms` stands for one of WAV's encodings. */
export function nameFourCharacters(type: string): string {
  if (!type.startsWith("ms") || type.length !== 4) return type.trim();
  const encoding = type.charCodeAt(2) << 8 | type.charCodeAt(3);
  return `of encoding ${encoding}${nameEncoding(encoding)}`;
}

/** Programs that write to a pipe do not know the size. They write 0 or a size of at least this. */
const UNKNOWN_SIZE = 0x7fff_f000;
/** A 32-bit size of this value means that the chunk `ds64` has the 64-bit size (EBU Tech 3306). */
const LONG_SIZE = 0xffff_ffff;
/** Offset of the data's size in the content of `ds64`. */
const LONG_SIZE_AT = 8;
const CHUNK_HEADER_BYTES = 8;

/** Wave64, by Sony: chunk names have 16 bytes, the first four as in WAV, and sizes have 64 bits. */
const WAVE64_TAG_BYTES = 16;
const WAVE64_MAGIC = "riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00";

/** Whether a file has the signature of WAV, of its 64-bit variants, or of Wave64. */
export function isWav(file: Uint8Array): boolean {
  const tag = readTag(file, 0);
  return ["RIFF", "RIFX", "RF64", "BW64"].includes(tag) && readTag(file, 8) === "WAVE" ||
    hasText(file, 0, WAVE64_MAGIC);
}

/** A chunk of a file. */
interface Chunk {
  readonly tag: string;
  readonly start: number;
  /** Bytes that the file claims; there may be fewer. */
  readonly size: number;
}

/**
 * Decodes a WAV file.
 *
 * @throws {HearthError} `invalid_media` when a header is inconsistent or the encoding is not supported.
 */
export async function* readWav(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const isLittleEndian = readTag(file, 0) !== "RIFX";
  let format: StoredFormat | undefined;
  let longSize = LONG_SIZE;
  const chunks = hasText(file, 0, WAVE64_MAGIC) ? listLong(view) : listChunks(view, isLittleEndian);
  for (const { tag, start, size } of chunks) {
    if (tag === "ds64" && start + LONG_SIZE_AT + 8 <= file.length) {
      longSize = Number(view.getBigUint64(start + LONG_SIZE_AT, true));
    }
    if (tag === "fmt ") {
      if (start + size > file.length) throw invalidMedia("The WAV file's format is cut short.");
      format = readWaveFormat(file.subarray(start, start + size), { isLittleEndian });
    }
    if (tag === "data") {
      if (format === undefined) throw invalidMedia("The WAV file has data before its format.");
      const promised = size === LONG_SIZE ? longSize : size;
      const present = file.length - start;
      const isUnknown = promised === 0 || promised >= UNKNOWN_SIZE;
      if (promised > present && !isUnknown) {
        decoding.onTruncated(
          `its header promises ${promised} bytes of sound, and ${present} are there`,
        );
      }
      const end = isUnknown ? file.length : Math.min(file.length, start + promised);
      yield* readStored(file.subarray(start, end), format, decoding);
      return;
    }
  }
  throw invalidMedia("The WAV file ends before its data.");
}

function readTag(file: Uint8Array, at: number): string {
  return String.fromCharCode(...file.subarray(at, at + 4));
}

function* listChunks(view: DataView, isLittleEndian: boolean): Generator<Chunk> {
  const file = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  for (let at = 12; at + CHUNK_HEADER_BYTES <= file.length;) {
    const size = view.getUint32(at + 4, isLittleEndian);
    const start = at + CHUNK_HEADER_BYTES;
    yield { tag: readTag(file, at), start, size };
    // Chunks are padded to an even size.
    at = start + size + size % 2;
  }
}

function* listLong(view: DataView): Generator<Chunk> {
  const file = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const headerBytes = WAVE64_TAG_BYTES + 8;
  for (let at = headerBytes + WAVE64_TAG_BYTES; at + headerBytes <= file.length;) {
    const size = Number(view.getBigUint64(at + WAVE64_TAG_BYTES, true)) - headerBytes;
    if (size < 0) return;
    yield { tag: readTag(file, at), start: at + headerBytes, size };
    // Chunks are padded to 8 bytes.
    at += headerBytes + Math.ceil(size / 8) * 8;
  }
}

/**
 * Reads the description of a sound in WAV files (`WAVEFORMATEX`), which other containers use too.
 *
 * @throws {HearthError} `invalid_media` when it is too short.
 */
export function readWaveFormat(
  bytes: Uint8Array,
  { isLittleEndian = true, container = "WAV" }: {
    readonly isLittleEndian?: boolean;
    readonly container?: string;
  } = {},
): StoredFormat {
  const size = bytes.length;
  if (size < 16) throw invalidMedia(`The ${container} file's format is cut short.`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, size);
  const u16 = (at: number) => view.getUint16(at, isLittleEndian);
  const encoding = u16(0);
  const [numChannels, blockBytes, bitsPerSample] = [u16(2), u16(12), u16(14)];
  // The actual encoding is in the first bytes of the extension's sub-format.
  const isExtended = encoding === FORMAT_EXTENSIBLE && size >= 26;
  const actual = isExtended ? u16(24) : encoding;
  const coding = CODINGS[actual];
  // Some programs write a wrong block size. It is ignored if such a block could not hold its samples.
  const isNonsense = isSampleKind(coding) && blockBytes * 8 < numChannels * bitsPerSample;
  return {
    container,
    numChannels,
    sampleRateHz: view.getUint32(4, isLittleEndian),
    blockBytes: isNonsense ? undefined : blockBytes,
    coding: isSampleKind(coding)
      ? readSampleCoding(coding, { blockBytes, numChannels, bitsPerSample, isLittleEndian })
      : coding,
    encoding: `of encoding ${actual}${nameEncoding(actual)} with ${bitsPerSample} bits`,
  };
}

function isSampleKind(coding: unknown): coding is SampleCoding["kind"] {
  return ["signed", "float", "A-law", "mu-law"].includes(coding as string);
}

const PADDED_BYTES = 4;

/** Samples may be stored in more bytes than they have bits; the lowest bits are then 0. */
function readSampleCoding(
  kind: SampleCoding["kind"],
  { blockBytes, numChannels, bitsPerSample, isLittleEndian }: {
    readonly blockBytes: number;
    readonly numChannels: number;
    readonly bitsPerSample: number;
    readonly isLittleEndian: boolean;
  },
): SampleCoding {
  const needed = Math.ceil(bitsPerSample / 8);
  const isPadded = kind === "signed" && needed > 1 && blockBytes === PADDED_BYTES * numChannels;
  const bytes = isPadded ? PADDED_BYTES : needed;
  return { kind: kind === "signed" && bytes === 1 ? "unsigned" : kind, bytes, isLittleEndian };
}
