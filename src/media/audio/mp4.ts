/**
 * Reads the sound of MP4, M4A and QuickTime files.
 *
 * @module
 */
import { Box } from "./mp4_boxes.ts";
import { decodeMp4, type SampleEntry } from "./mp4_codecs.ts";
import { readMp4Frames } from "./mp4_samples.ts";
import { readMp4Placement, readTrackId } from "./mp4_times.ts";
import { placeSound } from "./place_sound.ts";
import { type Decoding, invalidAudio, type Sound } from "./sound.ts";

const FIRST_TYPES = ["ftyp", "moov", "mdat", "free", "skip", "wide", "pnot"];
/** Size of a sample entry's fixed fields, by QuickTime's version of them. */
const ENTRY_BYTES = [28, 44, 64] as const;
/** Offsets in a sample entry of QuickTime's second version. */
const VERSION_2 = { rate: 32, channels: 40, bits: 48, flags: 52 } as const;
const BLOCK_BYTES_AT = 36;

/** Whether a file begins as an MP4 or QuickTime file does. */
export function isMp4(file: Uint8Array): boolean {
  return FIRST_TYPES.includes(String.fromCharCode(...file.subarray(4, 8)));
}

/**
 * Decodes the first sound track of a file.
 *
 * @throws {HearthError} `invalid_media` when there is none, or its codec is none of these.
 */
export async function* readMp4(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  const root = Box.root(file);
  const movie = root.find("moov");
  if (movie === undefined) {
    throw invalidAudio("The MP4 file was cut or is damaged: it has no table of contents.");
  }
  const track = [...movie.children()].find((box) => box.type === "trak" && isSound(box));
  const entry = track && readSampleEntry(track);
  if (entry === undefined) throw invalidAudio("The MP4 file has no sound track.");
  const frames = readMp4Frames(root, { track: track!, trackId: readTrackId(track!), decoding });
  const placement = readMp4Placement(root, movie, track!);
  const isEdited = placement.skipSeconds !== undefined;
  yield* placeSound(decodeMp4(entry, frames, { ...decoding, isEdited }), placement);
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
  // QuickTime puts the codec's boxes into one more.
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

/** The boxes behind an entry's fields, which may end in a box of no bytes. */
function readDetails(entry: Box, version: number): Box[] {
  const start = ENTRY_BYTES[version] ?? ENTRY_BYTES[0];
  return start <= entry.length ? [...entry.children(start)] : [];
}
