/**
 * Reads the sound of MP4, M4A and QuickTime files.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { BLOCK_BYTES_AT, Box, readMp4Frames } from "./mp4_boxes.ts";
import { decodeMp4, type SampleEntry } from "./mp4_codecs.ts";
import { applyTiming, type Decoding, type Sound, type TrackTiming } from "./sound.ts";

const FIRST_TYPES = ["ftyp", "moov", "mdat", "free", "skip", "wide", "pnot"];
/** Size of a sample entry's fixed fields, by the entry's version in QuickTime. */
const ENTRY_BYTES = [28, 44, 64] as const;
/** Offsets in a sample entry of QuickTime's version 2. */
const VERSION_2 = { rate: 32, channels: 40, bits: 48, flags: 52 } as const;

/** Whether a file has the signature of MP4 or QuickTime. */
export function isMp4(file: Uint8Array): boolean {
  return FIRST_TYPES.includes(String.fromCharCode(...file.subarray(4, 8)));
}

/**
 * Decodes the first sound track of a file.
 *
 * @throws {HearthError} `invalid_media` when there is none, or its codec is not supported.
 */
export async function* readMp4(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  const root = Box.root(file);
  const movie = root.find("moov");
  if (movie === undefined) {
    throw invalidMedia("The MP4 file was cut or is damaged: it has no table of contents.");
  }
  const track = [...movie.children()].find((box) => box.type === "trak" && isSound(box));
  const entry = track && readSampleEntry(track);
  if (entry === undefined) throw invalidMedia("The MP4 file has no sound track.");
  const frames = readMp4Frames(root, { track: track!, trackId: readTrackId(track!), decoding });
  const timing = readMp4Timing(root, movie, track!);
  const { skipSeconds = 0 } = timing;
  yield* applyTiming(decodeMp4(entry, frames, { ...decoding, skipSeconds }), timing);
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
  const isSecond = version === 2;
  const details = readDetails(entry, version);
  // QuickTime wraps the codec's boxes in one more box.
  const wrapped = details.filter(({ type }) => type === "wave").flatMap((
    box,
  ) => [...box.children()]);
  return {
    type: entry.type,
    numChannels: isSecond ? entry.u32(VERSION_2.channels) : entry.u16(16),
    bitsPerSample: isSecond ? entry.u32(VERSION_2.bits) : entry.u16(18),
    sampleRateHz: isSecond ? entry.f64(VERSION_2.rate) : entry.u32(24) / 2 ** 16,
    pcmFlags: isSecond ? entry.u32(VERSION_2.flags) : 0,
    blockBytes: version === 1 ? entry.u32(BLOCK_BYTES_AT) : 0,
    details: [...details, ...wrapped],
  };
}

/** The boxes after an entry's fields. The last one may be a terminator without bytes. */
function readDetails(entry: Box, version: number): Box[] {
  const start = ENTRY_BYTES[version] ?? ENTRY_BYTES[0];
  return start <= entry.length ? [...entry.children(start)] : [];
}

/** Maximum number of entries of an edit list that are read. */
const MAX_EDITS = 8;

/** A track's number, which fragments refer to. */
function readTrackId(track: Box): number {
  const header = track.find("tkhd");
  return header === undefined ? 0 : header.u32(header.u8(0) === 1 ? 20 : 12);
}

/** A track's timing within the whole file. `skipSeconds` is set only if an edit list gives it. */
function readMp4Timing(root: Box, movie: Box, track: Box): TrackTiming {
  const { silenceSeconds, part } = readEdits(movie, track);
  const lateSeconds = findFragmentDelay(root, movie, track);
  if (part === undefined) return { delaySeconds: silenceSeconds + lateSeconds };
  return {
    delaySeconds: silenceSeconds + Math.max(0, lateSeconds - part.startSeconds),
    skipSeconds: Math.max(0, part.startSeconds - lateSeconds),
    lengthSeconds: part.lengthSeconds,
  };
}

/** The content of a track's edit list. */
interface Edits {
  /** Seconds of silence before the sound. */
  readonly silenceSeconds: number;
  /**
   * The part to play, without the encoder's delay and padding; `undefined` if everything is played, or several parts.
   */
  readonly part?: { readonly startSeconds: number; readonly lengthSeconds: number };
}

function readEdits(movie: Box, track: Box): Edits {
  const list = track.find("edts", "elst");
  const movieHeader = movie.find("mvhd");
  const mediaHeader = track.find("mdia", "mdhd");
  if (list === undefined || movieHeader === undefined || mediaHeader === undefined) {
    return { silenceSeconds: 0 };
  }
  const isLong = list.u8(0) === 1;
  const edits = Array.from(
    { length: Math.min(list.u32(4), MAX_EDITS) },
    (_, i) =>
      isLong
        ? {
          duration: list.u64(8 + 20 * i),
          start: list.i32(16 + 20 * i) * 2 ** 32 + list.u32(20 + 20 * i),
        }
        : { duration: list.u32(8 + 12 * i), start: list.i32(12 + 12 * i) },
  );
  // An entry with a negative start is silence.
  const parts = edits.filter(({ start }) => start >= 0);
  const silence = edits.slice(0, edits.indexOf(parts[0]!))
    .reduce((sum, { duration }) => sum + duration, 0);
  const silenceSeconds = parts.length === 0 ? 0 : silence / readTimescale(movieHeader);
  if (parts.length !== 1) return { silenceSeconds };
  const [{ duration, start }] = parts as [{ duration: number; start: number }];
  return {
    silenceSeconds,
    part: {
      startSeconds: start / readTimescale(mediaHeader),
      lengthSeconds: duration === 0 ? Infinity : duration / readTimescale(movieHeader),
    },
  };
}

/**
 * The delay in seconds from the first fragment of any track to this track's first fragment. Times may count from the
 * start of a recording that has run for hours, so only differences matter.
 */
function findFragmentDelay(root: Box, movie: Box, track: Box): number {
  const timescales = new Map<number, number>();
  for (const each of movie.children()) {
    const header = each.type === "trak" ? each.find("mdia", "mdhd") : undefined;
    if (header !== undefined) timescales.set(readTrackId(each), readTimescale(header));
  }
  const starts = new Map<number, number>();
  for (const box of root.children()) {
    if (box.type !== "moof" || box.isCut) continue;
    for (const fragment of box.children()) {
      const trackId = fragment.type === "traf" ? fragment.find("tfhd")?.u32(4) : undefined;
      const time = fragment.find("tfdt");
      if (trackId === undefined || time === undefined || starts.has(trackId)) continue;
      const start = time.u8(0) === 1 ? time.u64(4) : time.u32(4);
      starts.set(trackId, start / (timescales.get(trackId) ?? 1));
    }
    if (starts.size === timescales.size) break;
  }
  const start = starts.get(readTrackId(track));
  return start === undefined ? 0 : start - Math.min(...starts.values());
}

function readTimescale(header: Box): number {
  return Math.max(1, header.u32(header.u8(0) === 1 ? 20 : 12));
}
