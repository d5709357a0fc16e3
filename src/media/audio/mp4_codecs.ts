/**
 * Decodes the codecs of MP4 and QuickTime tracks.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { joinBytes } from "../../base/bytes.ts";
import { decodeAac, parseAacConfig } from "./aac.ts";
import { decodeAlac } from "./alac.ts";
import { decodeFlac } from "./flac.ts";
import { readMp3 } from "./mp3.ts";
import type { Box } from "./mp4_boxes.ts";
import { decodeOpus, OPUS_RATE_HZ, parseOpusHead } from "./opus.ts";
import { readStored, type SampleCoding, type StoredFormat } from "./stored_sound.ts";
import { type Decoding, type Sound, UnreadSoundError } from "./sound.ts";
import { nameFourCharacters } from "./wav.ts";

/** The codec of a track. */
export interface SampleEntry {
  readonly type: string;
  readonly numChannels: number;
  readonly sampleRateHz: number;
  readonly bitsPerSample: number;
  /** Flags of `lpcm`; 0 if the entry has none. */
  readonly pcmFlags: number;
  /** Bytes of a block with all channels; 0 if the entry does not give them. */
  readonly blockBytes: number;
  /** The boxes that describe the codec. */
  readonly details: readonly Box[];
}

/** The content of an `esds` box. */
interface EsDescriptor {
  readonly objectType: number;
  readonly config: Uint8Array;
}

type Frames = Iterable<Uint8Array<ArrayBuffer>>;

const MP3_OBJECT_TYPES = [0x69, 0x6b];
const AAC_OBJECT_TYPES = [0x40, 0x66, 0x67, 0x68];
/** Object types of codecs that are not supported. */
const UNREAD_OBJECT_TYPES: Readonly<Record<number, string>> = {
  0xa5: "AC-3",
  0xa6: "E-AC-3",
  0xa9: "DTS",
  0xaa: "DTS-HD",
  0xab: "DTS-HD Master Audio",
  0xac: "DTS Express",
  0xdd: "Vorbis",
  0xe1: "QCELP",
};
/** Codecs that are not supported. */
const UNREAD_TYPES: Readonly<Record<string, string>> = {
  "samr": "AMR",
  "sawb": "AMR-WB",
  "sawp": "AMR-WB+",
  "ac-3": "AC-3",
  "ac-4": "AC-4",
  "ec-3": "E-AC-3",
  "dtsc": "DTS",
  "dtsh": "DTS-HD",
  "dtsl": "DTS-HD",
  "dtse": "DTS",
  "mlpa": "TrueHD",
  "QDM2": "QDesign",
  "Qclp": "QCELP",
  "sqcp": "QCELP",
  "MAC3": "MACE",
  "MAC6": "MACE",
  "enca": "encrypted",
  "mha1": "MPEG-H",
  "mhm1": "MPEG-H",
};
const DESCRIPTOR = { stream: 3, decoder: 4, specific: 5 } as const;
const LPCM_FLAG = { float: 1, bigEndian: 2 } as const;

/** The first box of a type. @throws {HearthError} `invalid_media` when there is none. */
function requireBox({ type, details }: SampleEntry, wanted: string): Box {
  const box = details.find((detail) => detail.type === wanted);
  if (box !== undefined) return box;
  throw invalidMedia(`The MP4 file's ${type} track lacks its ${wanted} box.`);
}

/**
 * Decodes a track's frames.
 *
 * @param options.skipSeconds duration that the edit list trims from the beginning after decoding.
 * @throws {HearthError} `invalid_media` when the codec is not supported.
 */
export function decodeMp4(
  entry: SampleEntry,
  frames: Frames,
  { skipSeconds, ...decoding }: Decoding & { readonly skipSeconds: number },
): AsyncGenerator<Sound, void> {
  const stored = toStored(entry);
  if (stored !== undefined) return readStored(joinBytes([...frames]), stored, decoding);
  switch (entry.type) {
    case "mp4a": {
      const { objectType, config } = readEsDescriptor(requireBox(entry, "esds").bytes(4));
      if (MP3_OBJECT_TYPES.includes(objectType)) return readMp3(joinBytes([...frames]), decoding);
      if (AAC_OBJECT_TYPES.includes(objectType)) return decodeAac(parseAacConfig(config), frames);
      const name = UNREAD_OBJECT_TYPES[objectType] ?? `of object type ${objectType}`;
      throw new UnreadSoundError(`The MP4 file's sound is ${name}; AAC or MP3 is expected.`);
    }
    case "alac":
      return decodeAlac(requireBox(entry, "alac").bytes(4), frames);
    case "Opus": {
      const head = parseOpusHead(toOpusHead(requireBox(entry, "dOps").bytes()));
      // The edit list covers the samples to skip, or a part of them.
      const preSkip = Math.max(0, head.preSkip - Math.round(skipSeconds * OPUS_RATE_HZ));
      return decodeOpus({ ...head, preSkip }, frames);
    }
    case "fLaC":
      return decodeFlac(
        joinBytes([new TextEncoder().encode("fLaC"), requireBox(entry, "dfLa").bytes(4)]),
        frames,
        decoding,
      );
    default: {
      const name = UNREAD_TYPES[entry.type] === undefined ? "" : ` (${UNREAD_TYPES[entry.type]})`;
      throw new UnreadSoundError(
        `The MP4 file's sound is ${nameFourCharacters(entry.type)}${name}; ` +
          "AAC, MP2, MP3, Opus, FLAC, Apple Lossless, PCM, A-law, mu-law, ADPCM or GSM 6.10 is expected.",
      );
    }
  }
}

/** The format of sound stored as samples or equal blocks; `undefined` for other codecs. */
function toStored(entry: SampleEntry): StoredFormat | undefined {
  const { type, numChannels, sampleRateHz, blockBytes } = entry;
  const coding = getStoredCoding(entry);
  if (coding === undefined) return undefined;
  const isBlock = coding === "IMA ADPCM" || coding === "Microsoft ADPCM";
  return {
    container: "MP4",
    numChannels,
    sampleRateHz,
    blockBytes: isBlock ? blockBytes : undefined,
    coding,
    encoding: type.trim(),
  };
}

function getStoredCoding(entry: SampleEntry): StoredFormat["coding"] {
  const { type, bitsPerSample, pcmFlags, details } = entry;
  const isSwapped = details.find((box) => box.type === "enda")?.bytes().at(1) === 1;
  const samples = (
    kind: SampleCoding["kind"],
    bits: number,
    isLittleEndian = isSwapped,
  ): SampleCoding => ({ kind, bytes: Math.ceil(bits / 8), isLittleEndian });
  switch (type) {
    case "sowt":
      return samples("signed", bitsPerSample, true);
    case "twos":
      return samples("signed", bitsPerSample, false);
    case "raw ":
      return samples("unsigned", 8);
    case "in24":
      return samples("signed", 24);
    case "in32":
      return samples("signed", 32);
    case "fl32":
      return samples("float", 32);
    case "fl64":
      return samples("float", 64);
    case "alaw":
      return samples("A-law", 8);
    case "ulaw":
      return samples("mu-law", 8);
    case "lpcm": {
      const kind = pcmFlags & LPCM_FLAG.float ? "float" : "signed";
      return samples(kind, bitsPerSample, (pcmFlags & LPCM_FLAG.bigEndian) === 0);
    }
    case "ipcm":
    case "fpcm": {
      const config = requireBox(entry, "pcmC");
      const kind = type === "ipcm" ? "signed" : "float";
      return samples(kind, config.u8(5), (config.u8(4) & 1) === 1);
    }
    case "ima4":
      return "Apple IMA ADPCM";
    case "agsm":
      return "GSM";
    case "ms\0\x31":
      return "GSM in WAV";
    case "ms\0\x02":
      return "Microsoft ADPCM";
    case "ms\0\x11":
      return "IMA ADPCM";
    case ".mp2":
    case ".mp3":
    case "ms\0P":
    case "ms\0U":
      return "MPEG audio";
    default:
      return undefined;
  }
}

/** Reads nested descriptors. Before each come a tag and a length, which has 7 bits in each byte. */
export function readEsDescriptor(data: Uint8Array): EsDescriptor {
  let objectType = 0;
  for (let at = 0; at < data.length;) {
    const tag = data[at++];
    let length = 0;
    let byte: number;
    do {
      byte = data[at++] ?? 0;
      length = length << 7 | byte & 127;
    } while (byte & 128);
    if (tag === DESCRIPTOR.stream) {
      const flags = data[at + 2] ?? 0;
      at += 3 + (flags & 0x80 ? 2 : 0) + (flags & 0x40 ? 1 + (data[at + 3] ?? 0) : 0) +
        (flags & 0x20 ? 2 : 0);
    } else if (tag === DESCRIPTOR.decoder) {
      objectType = data[at] ?? 0;
      at += 13;
    } else if (tag === DESCRIPTOR.specific) {
      return { objectType, config: data.subarray(at, at + length) };
    } else {
      at += length;
    }
  }
  return { objectType, config: new Uint8Array() };
}

/**
 * Makes an identification header, as in Ogg, from a `dOps` box. The numbers in the box are big-endian, those in the
 * header little-endian.
 */
function toOpusHead(box: Uint8Array): Uint8Array {
  const head = new Uint8Array(8 + box.length);
  head.set(new TextEncoder().encode("OpusHead"));
  head.set(box, 8);
  head[8] = 1;
  head.subarray(10, 12).reverse();
  head.subarray(12, 16).reverse();
  head.subarray(16, 18).reverse();
  return head;
}
