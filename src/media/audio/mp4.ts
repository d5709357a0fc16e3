/**
 * Reads the sound of MP4, M4A and QuickTime files: AAC, MP3, Opus and FLAC.
 *
 * @module
 */
import { decodeAac } from "./aac.ts";
import { parseAacConfig } from "./aac/config.ts";
import { decodeFlac } from "./flac.ts";
import { joinBytes } from "../../join_bytes.ts";
import { readMp3 } from "./mp3.ts";
import { Box } from "./mp4_boxes.ts";
import { readMp4Frames } from "./mp4_samples.ts";
import { readMp4Placement, readTrackId } from "./mp4_times.ts";
import { decodeOpus, parseOpusHead } from "./opus.ts";
import { placeSound } from "./place_sound.ts";
import { invalidAudio, type Sound } from "./sound.ts";

/** The codec of a track. */
interface SampleEntry {
  readonly type: string;
  /** Boxes that describe the codec. */
  readonly details: readonly Box[];
}

/** The content of an `esds` box. */
interface EsDescriptor {
  readonly objectType: number;
  readonly config: Uint8Array;
}

type Frames = Iterable<Uint8Array<ArrayBuffer>>;

const FIRST_TYPES = ["ftyp", "moov", "mdat", "free", "skip", "wide", "pnot"];
/** Size of a sample entry's fixed fields, by QuickTime's version of them. */
const ENTRY_BYTES = [28, 44, 64] as const;
const MP3_OBJECT_TYPES = [0x69, 0x6b];
/** Codecs that phones and cameras write and that are not read. */
const UNREAD_TYPES: Readonly<Record<string, string>> = {
  "alac": "Apple Lossless",
  "samr": "AMR",
  "sawb": "AMR-WB",
  "ac-3": "AC-3",
  "ec-3": "E-AC-3",
  "sowt": "PCM",
  "twos": "PCM",
  "lpcm": "PCM",
  "ipcm": "PCM",
  "in24": "PCM",
  "ima4": "IMA ADPCM",
};
const AAC_OBJECT_TYPES = [0x40, 0x66, 0x67, 0x68];
const DESCRIPTOR = { stream: 3, decoder: 4, specific: 5 } as const;

/** Whether a file begins as an MP4 or QuickTime file does. */
export function isMp4(file: Uint8Array): boolean {
  return FIRST_TYPES.includes(String.fromCharCode(...file.subarray(4, 8)));
}

/**
 * Decodes the first sound track of a file.
 *
 * @throws {HearthError} `invalid_media` when there is none, its codec is none of these, or the file was cut.
 */
export async function* readMp4(file: Uint8Array<ArrayBuffer>): AsyncGenerator<Sound, void> {
  const root = Box.root(file);
  const movie = root.find("moov");
  if (movie === undefined) {
    throw invalidAudio("The MP4 file was cut or is damaged: it has no table of contents.");
  }
  const track = [...movie.children()].find((box) => box.type === "trak" && isSound(box));
  const entry = track && readSampleEntry(track);
  if (entry === undefined) throw invalidAudio("The MP4 file has no sound track.");
  const frames = readMp4Frames(root, track!, readTrackId(track!));
  const placement = readMp4Placement(root, movie, track!);
  yield* placeSound(decode(entry, frames, placement.skipSeconds !== undefined), placement);
}

function isSound(track: Box): boolean {
  const handler = track.find("mdia", "hdlr");
  return handler !== undefined &&
    String.fromCharCode(...handler.bytes(8).subarray(0, 4)) === "soun";
}

function readSampleEntry(track: Box): SampleEntry | undefined {
  const [entry] = track.find("mdia", "minf", "stbl", "stsd")?.children(8) ?? [];
  if (entry === undefined) return undefined;
  const version = entry.u16(8);
  const details = [...entry.children(ENTRY_BYTES[version] ?? ENTRY_BYTES[0])];
  // QuickTime puts the codec's boxes into one more.
  const wrapped = details.filter(({ type }) => type === "wave").flatMap((
    box,
  ) => [...box.children()]);
  return { type: entry.type, details: [...details, ...wrapped] };
}

function decode(
  { type, details }: SampleEntry,
  frames: Frames,
  isEdited: boolean,
): AsyncGenerator<Sound, void> {
  const detail = (wanted: string): Box => {
    const box = details.find(({ type }) => type === wanted);
    if (box === undefined) {
      throw invalidAudio(`The MP4 file's ${type} track lacks its ${wanted} box.`);
    }
    return box;
  };
  switch (type) {
    case "mp4a": {
      const { objectType, config } = readEsDescriptor(detail("esds").bytes(4));
      if (MP3_OBJECT_TYPES.includes(objectType)) return readMp3(joinBytes([...frames]));
      if (AAC_OBJECT_TYPES.includes(objectType)) return decodeAac(parseAacConfig(config), frames);
      throw invalidAudio(
        `The MP4 file's sound is of object type ${objectType}; AAC or MP3 is wanted.`,
      );
    }
    case ".mp3":
      return readMp3(joinBytes([...frames]));
    case "Opus": {
      const head = parseOpusHead(toOpusHead(detail("dOps").bytes()));
      // The edit list names the samples to skip as well.
      return decodeOpus(isEdited ? { ...head, preSkip: 0 } : head, frames);
    }
    case "fLaC":
      return decodeFlac(
        joinBytes([new TextEncoder().encode("fLaC"), detail("dfLa").bytes(4)]),
        frames,
      );
    default: {
      const name = UNREAD_TYPES[type] === undefined ? "" : ` (${UNREAD_TYPES[type]})`;
      throw invalidAudio(
        `The MP4 file's sound is ${type.trim()}${name}; AAC, MP3, Opus or FLAC is wanted.`,
      );
    }
  }
}

/** Descriptors are nested, each after a tag and a length of 7 bits a byte. */
function readEsDescriptor(data: Uint8Array): EsDescriptor {
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

/** An Ogg header from a `dOps` box, whose numbers have the other byte order. */
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
