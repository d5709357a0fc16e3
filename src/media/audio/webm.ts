/**
 * Reads the sound of WebM and Matroska files (RFC 9559): Opus, Vorbis, FLAC, AAC, MP3, Apple Lossless, PCM, and the
 * codings of WAV files.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { joinBytes } from "../../base/bytes.ts";
import { decodeAac, parseAacConfig } from "./aac.ts";
import { decodeAlac } from "./alac.ts";
import {
  type ContentEncoding,
  readEbmlFloat,
  readEbmlInt,
  readEbmlNumber,
  readEbmlUint,
  splitLaced,
  splitXiph,
  undoEncoding,
  walkEbml,
} from "./ebml.ts";
import { decodeFlac } from "./flac.ts";
import { readMp3 } from "./mp3.ts";
import { decodeOpus, parseOpusHead } from "./opus.ts";
import { readPcm, readStored, type SampleCoding } from "./stored_sound.ts";
import {
  applyTiming,
  type Decoding,
  type Sound,
  type TrackTiming,
  UnreadSoundError,
} from "./sound.ts";
import { decodeVorbis } from "./ogg.ts";
import { readWaveFormat } from "./wav.ts";

interface Track {
  number: number;
  type: number;
  codec: string;
  /** Delay of the codec, in nanoseconds. */
  codecDelay: number;
  setup: Uint8Array<ArrayBuffer>;
  encodings: ContentEncoding[];
  numChannels: number;
  sampleRateHz: number;
  bitDepth: number;
}

type Bytes = Uint8Array<ArrayBuffer>;

const MAGIC = [0x1a, 0x45, 0xdf, 0xa3];
const ID = {
  segment: 0x18538067,
  info: 0x1549a966,
  timestampScale: 0x2ad7b1,
  tracks: 0x1654ae6b,
  track: 0xae,
  trackNumber: 0xd7,
  trackType: 0x83,
  codecId: 0x86,
  codecDelay: 0x56aa,
  codecPrivate: 0x63a2,
  encodings: 0x6d80,
  encoding: 0x6240,
  encodingScope: 0x5032,
  compression: 0x5034,
  compressionAlgorithm: 0x4254,
  compressionSettings: 0x4255,
  encryption: 0x5035,
  audio: 0xe1,
  samplingFrequency: 0xb5,
  channels: 0x9f,
  bitDepth: 0x6264,
  cluster: 0x1f43b675,
  timestamp: 0xe7,
  blockGroup: 0xa0,
  block: 0xa1,
  simpleBlock: 0xa3,
  discardPadding: 0x75a2,
} as const;
const PARENTS: ReadonlySet<number> = new Set([
  ID.segment,
  ID.info,
  ID.tracks,
  ID.track,
  ID.audio,
  ID.encodings,
  ID.encoding,
  ID.compression,
  ID.encryption,
  ID.cluster,
  ID.blockGroup,
]);
const VIDEO_TRACK = 1;
const SOUND_TRACK = 2;
const DEFAULT_TIMESTAMP_SCALE = 1e6;
const DEFAULT_RATE_HZ = 8_000;
/** Bytes of a block's time and flags, which follow its track number. */
const BLOCK_HEADER_BYTES = 3;

const CODECS: Readonly<
  Record<
    string,
    (track: Track, frames: Iterable<Bytes>, decoding: Decoding) => AsyncGenerator<Sound, void>
  >
> = {
  "A_OPUS": ({ setup }, frames) => decodeOpus(parseOpusHead(setup), frames),
  "A_VORBIS": ({ setup }, frames) => decodeVorbis(chain(splitXiph(setup, 0), frames)),
  "A_FLAC": ({ setup }, frames, decoding) => decodeFlac(setup, frames, decoding),
  "A_AAC": ({ setup }, frames) => decodeAac(parseAacConfig(setup), frames),
  "A_ALAC": ({ setup }, frames) => decodeAlac(setup, frames),
  "A_MPEG/L3": readMpeg,
  "A_MPEG/L2": readMpeg,
  "A_MS/ACM": ({ setup }, frames, decoding) =>
    readStored(joinBytes([...frames]), readWaveFormat(setup, { container: "WebM" }), decoding),
  "A_PCM/INT/LIT": (track, frames) =>
    readSamples(track, frames, { kind: "signed", isLittleEndian: true }),
  "A_PCM/INT/BIG": (track, frames) =>
    readSamples(track, frames, { kind: "signed", isLittleEndian: false }),
  "A_PCM/FLOAT/IEEE": (track, frames) =>
    readSamples(track, frames, { kind: "float", isLittleEndian: true }),
};
/** Names of codecs that are not supported. */
const UNREAD: Readonly<Record<string, string>> = {
  "A_AC3": "AC-3",
  "A_EAC3": "E-AC-3",
  "A_DTS": "DTS",
  "A_TRUEHD": "TrueHD",
  "A_MLP": "MLP",
  "A_TTA1": "TTA",
  "A_WAVPACK4": "WavPack",
  "A_QUICKTIME": "a codec of QuickTime",
  "A_REAL": "RealAudio",
};

function readMpeg(
  _: Track,
  frames: Iterable<Bytes>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  return readMp3(joinBytes([...frames]), decoding);
}

async function* readSamples(
  { numChannels, sampleRateHz, bitDepth }: Track,
  frames: Iterable<Bytes>,
  { kind, isLittleEndian }: Pick<SampleCoding, "kind" | "isLittleEndian">,
): AsyncGenerator<Sound, void> {
  const bytes = Math.ceil(bitDepth / 8);
  const coding: SampleCoding = {
    kind: kind === "signed" && bytes === 1 ? "unsigned" : kind,
    bytes,
    isLittleEndian,
  };
  const encoding = `${kind} with ${bitDepth} bits`;
  for (const frame of frames) {
    yield* readPcm(frame, { container: "WebM", numChannels, sampleRateHz, coding, encoding });
  }
}

/** Whether a file has the signature of WebM or Matroska. */
export function isWebm(file: Uint8Array): boolean {
  return MAGIC.every((byte, i) => file[i] === byte);
}

/**
 * Decodes the first sound track of a file.
 *
 * @throws {HearthError} `invalid_media` when there is none, or its codec is not supported.
 */
export async function* readWebm(file: Bytes, decoding: Decoding): AsyncGenerator<Sound, void> {
  const tracks = readTracks(file);
  const found = tracks.find(({ type }) => type === SOUND_TRACK);
  if (found === undefined) throw invalidMedia("The WebM file has no sound track.");
  const { encodings } = found;
  const track = { ...found, setup: undoEncoding(found.setup, { encodings, scope: 2 }) };
  const decode = CODECS[track.codec];
  if (decode === undefined) {
    const known = Object.entries(UNREAD).find(([id]) => track.codec.startsWith(id))?.[1];
    const name = known === undefined ? "" : ` (${known})`;
    throw new UnreadSoundError(
      `The WebM file's sound is ${track.codec}${name}; ${
        Object.keys(CODECS).join(", ")
      } are expected.`,
    );
  }
  yield* applyTiming(
    decode(track, readFrames(file, track, decoding), decoding),
    readTiming(file, tracks, track),
  );
}

/** Reads the tracks; a few programs write them after the sound. */
function readTracks(file: Bytes): Track[] {
  const tracks: Track[] = [];
  for (const { id, data, isCut } of walkEbml(file, PARENTS)) {
    if (isCut) break;
    if (id === ID.track) {
      tracks.push({
        number: 0,
        type: 0,
        codec: "",
        codecDelay: 0,
        setup: new Uint8Array(),
        encodings: [],
        numChannels: 1,
        sampleRateHz: DEFAULT_RATE_HZ,
        bitDepth: 0,
      });
    }
    if (id === ID.cluster && tracks.length > 0) break;
    const track = tracks.at(-1);
    if (track === undefined) continue;
    if (id === ID.trackNumber) track.number = readEbmlUint(data);
    if (id === ID.trackType) track.type = readEbmlUint(data);
    if (id === ID.codecId) track.codec = new TextDecoder().decode(data).replace(/\0+$/, "");
    if (id === ID.codecDelay) track.codecDelay = readEbmlUint(data);
    if (id === ID.codecPrivate) track.setup = data;
    if (id === ID.encoding) {
      const settings = new Uint8Array();
      track.encodings.push({ scope: 1, isEncrypted: false, algorithm: 0, settings });
    }
    const encoding = track.encodings.at(-1);
    if (encoding !== undefined) {
      if (id === ID.encodingScope) encoding.scope = readEbmlUint(data);
      if (id === ID.compressionAlgorithm) encoding.algorithm = readEbmlUint(data);
      if (id === ID.compressionSettings) encoding.settings = data;
      if (id === ID.encryption) encoding.isEncrypted = true;
    }
    if (id === ID.channels) track.numChannels = readEbmlUint(data);
    if (id === ID.bitDepth) track.bitDepth = readEbmlUint(data);
    if (id === ID.samplingFrequency) track.sampleRateHz = readEbmlFloat(data);
  }
  return tracks;
}

/**
 * A track's timing, relative to the first block of any track, since a recording's timestamps may begin anywhere. For
 * Opus, the delay comes from the codec's header instead.
 */
function readTiming(file: Bytes, tracks: readonly Track[], track: Track): TrackTiming {
  const timed = new Set(
    tracks.filter(({ type }) => type === VIDEO_TRACK || type === SOUND_TRACK)
      .map(({ number }) => number),
  );
  const starts = new Map<number, number>();
  let scale = DEFAULT_TIMESTAMP_SCALE;
  let clusterTime = 0;
  let blockTrack: number | undefined;
  let padding = 0;
  for (const { id, data, isCut } of walkEbml(file, PARENTS)) {
    if (isCut) break;
    if (id === ID.timestampScale) scale = readEbmlUint(data);
    if (id === ID.timestamp) clusterTime = readEbmlUint(data);
    if (id === ID.block || id === ID.simpleBlock) {
      const number = readEbmlNumber(data, 0);
      blockTrack = number?.value;
      if (number === undefined || data.length < number.next + BLOCK_HEADER_BYTES) continue;
      const time = readEbmlInt(data.subarray(number.next, number.next + 2));
      if (timed.has(number.value) && !starts.has(number.value)) {
        starts.set(number.value, clusterTime + time);
      }
      if (number.value === track.number) padding = 0;
    }
    if (id === ID.discardPadding && blockTrack === track.number) padding = readEbmlInt(data);
  }
  const start = starts.get(track.number) ?? 0;
  return {
    delaySeconds: (start - Math.min(start, ...starts.values())) * scale / 1e9,
    skipSeconds: track.codec === "A_OPUS" ? 0 : track.codecDelay / 1e9,
    paddingSeconds: Math.max(0, padding) / 1e9,
  };
}

function* readFrames(file: Bytes, track: Track, decoding: Decoding): Generator<Bytes> {
  const { encodings } = track;
  for (const frame of readStoredFrames(file, track, decoding)) {
    yield encodings.length === 0 ? frame : undoEncoding(frame, { encodings, scope: 1 });
  }
}

/** The frames as they are stored, perhaps compressed. */
function* readStoredFrames(file: Bytes, track: Track, decoding: Decoding): Generator<Bytes> {
  for (const { id, data, end = 0, isCut } of walkEbml(file, PARENTS)) {
    // A file written during recording has no overall size, but its parts have sizes.
    if (end > file.length) decoding.onTruncated(`it promises ${end} bytes and has ${file.length}`);
    if (id !== ID.block && id !== ID.simpleBlock) continue;
    // Of a truncated frame, only PCM samples are usable.
    const isUsable = track.codec.startsWith("A_PCM") && track.encodings.length === 0;
    if (isCut && !isUsable) return;
    const number = readEbmlNumber(data, 0);
    if (number?.value !== track.number) continue;
    const content = number.next + BLOCK_HEADER_BYTES;
    yield* splitLaced(data, content, data[content - 1]! >> 1 & 3);
  }
}

function* chain<T>(...iterables: readonly Iterable<T>[]): Generator<T> {
  for (const iterable of iterables) yield* iterable;
}
