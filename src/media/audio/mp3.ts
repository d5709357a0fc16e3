/**
 * Reads MPEG audio: layers I, II and III (MP3). Also finds the frames of any stream without a container whose frames
 * begin with a sync byte, and skips ID3 tags.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { type Decoding, ErrorBudget, type Sound } from "./sound.ts";

/** Maximum number of bytes between frames. */
const MAX_JUNK_BYTES = 1 << 20;
const CHUNK_BYTES = 32_768;
/** A file counts as truncated if it has less than this share of the frames that its header promises. */
const MIN_FRAMES_SHARE = 0.98;

/** The offset of the first frame, if the file is MPEG audio. */
export function findMp3(file: Uint8Array): number | undefined {
  return findFirstFrame(file, parseFrame);
}

/**
 * Decodes MPEG audio. Bytes between frames are skipped. The encoder's padding is left out if the file gives its length.
 *
 * @throws {HearthError} `invalid_media` when there are no frames, or too many damaged ones.
 */
export async function* readMp3(
  file: Uint8Array<ArrayBuffer>,
  { onTruncated }: Decoding,
): AsyncGenerator<Sound, void> {
  const start = findMp3(file);
  if (start === undefined) throw invalidMedia("The MP3 file holds no frames.");
  const { MPEGDecoder } = await import("mpg123-decoder");
  const decoder = new MPEGDecoder();
  await decoder.ready;
  try {
    const budget = new ErrorBudget();
    let numFrames = 0;
    let isCut = false;
    for (const chunk of splitFrames(file, start)) {
      isCut ||= chunk.isCut;
      numFrames += chunk.numFrames;
      const { channelData, sampleRate, errors } = decoder.decode(chunk.bytes);
      budget.spend(errors);
      yield { channels: channelData, sampleRateHz: sampleRate };
    }
    const promised = readFrameCount(file, start);
    if (numFrames < promised * MIN_FRAMES_SHARE) {
      onTruncated(`its header promises ${promised} frames, and ${numFrames} are there`);
    } else if (isCut) {
      onTruncated("its last frame is cut");
    }
  } finally {
    decoder.free();
  }
}

/** Yields runs of whole frames of one kind, and whether the file ends within another frame after them. */
function* splitFrames(
  file: Uint8Array<ArrayBuffer>,
  start: number,
): Generator<{ bytes: Uint8Array<ArrayBuffer>; numFrames: number; isCut: boolean }> {
  let from: number | undefined = start;
  while (from !== undefined) {
    let frame: MpegFrame | undefined = parseFrame(file, from);
    const kind: number | undefined = frame?.kind;
    let end: number = from;
    let numFrames = 0;
    while (
      frame?.kind === kind && end + frame!.numBytes <= file.length && end - from < CHUNK_BYTES
    ) {
      end += frame!.numBytes;
      numFrames++;
      frame = parseFrame(file, end);
    }
    const isCut: boolean = frame?.kind === kind && end + (frame?.numBytes ?? 0) > file.length;
    if (numFrames > 0) yield { bytes: file.subarray(from, end), numFrames, isCut };
    const goesOn: boolean = numFrames > 0 && frame?.kind === kind;
    from = goesOn ? end : findFrames(file, Math.max(end, from + 1), {
      maxBytes: MAX_JUNK_BYTES,
      parse: parseFrame,
    });
  }
}

/** The number of frames in a `Xing` or `Info` header; 0 if there is none. */
function readFrameCount(file: Uint8Array, start: number): number {
  const at = start + parseFrame(file, start)!.dataOffset;
  const tag = String.fromCharCode(...file.subarray(at, at + 4));
  if (tag !== "Xing" && tag !== "Info") return 0;
  const view = new DataView(file.buffer, file.byteOffset + at, 12);
  const hasCount = (view.getUint32(4) & 1) === 1;
  return hasCount ? view.getUint32(8) : 0;
}

/** A frame's header, decoded. Frames of one version, layer and sample rate are of one kind. */
interface MpegFrame extends SyncFrame {
  readonly sampleRateHz: number;
  /** Distance from the frame's beginning to its data in layer III, where a `Xing` header may be. */
  readonly dataOffset: number;
}

const KIND_MASK = 0x1e0c00;
const HEADER_BYTES = 4;
/**
 * Bitrates in kbit/s by index, counted from 1. The rows are for layers I, II and III of version 1, for layer I of later
 * versions, and for layers II and III of later versions.
 */
const BITRATES = [
  [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const;
const SAMPLE_RATES_HZ = [44_100, 48_000, 32_000] as const;

/** The frame whose header is at `at`, or `undefined` if there is none. */
function parseFrame(file: Uint8Array, at: number): MpegFrame | undefined {
  if (file[at] !== SYNC_BYTE || at + HEADER_BYTES > file.length) return undefined;
  const header = file[at]! << 24 | file[at + 1]! << 16 | file[at + 2]! << 8 | file[at + 3]!;
  const version = header >>> 19 & 3;
  const layer = 4 - (header >>> 17 & 3);
  const rateIndex = header >>> 10 & 3;
  const bitrateIndex = header >>> 12 & 15;
  if ((header >>> 21 & 0x7ff) !== 0x7ff || version === 1 || layer === 4) return undefined;
  const isFirst = version === 3;
  const bitrates = BITRATES[isFirst ? layer - 1 : layer === 1 ? 3 : 4]!;
  const kbits = bitrates[bitrateIndex - 1];
  const baseRate = SAMPLE_RATES_HZ[rateIndex];
  // In free format, which has no bitrate, a frame's length is unknown.
  if (kbits === undefined || baseRate === undefined) return undefined;
  const sampleRateHz = isFirst ? baseRate : version === 2 ? baseRate / 2 : baseRate / 4;
  const padding = header >>> 9 & 1;
  const slotBytes = layer === 1 ? 4 : 1;
  const slotsPerBit = layer === 1 ? 12 : layer === 3 && !isFirst ? 72 : 144;
  const isMono = (header >>> 6 & 3) === 3;
  const sideBytes = isFirst ? (isMono ? 17 : 32) : isMono ? 9 : 17;
  return {
    numBytes: (Math.floor(slotsPerBit * kbits * 1000 / sampleRateHz) + padding) * slotBytes,
    sampleRateHz,
    kind: header & KIND_MASK,
    dataOffset: HEADER_BYTES + sideBytes,
  };
}

/**
 * The bits of a header that all frames of a free-format file share: sync word, version, layer, protection, bitrate and
 * sample rate.
 */
const SHARED_MASK = 0xfffffc00;
const FREE_BITRATE = 0;
/** The longest frame that encoders write has 2,880 bytes: layer III at 32 kHz and 640 kbit/s. */
const MAX_FREE_BYTES = 4096;
/** Possible differences in length between two frames, due to padding. */
const PADDING_BYTES = [0, 1, -1];

/**
 * Whether a file is MPEG audio in free format: all frames have the same length, which only the distance between their
 * headers shows.
 */
export function isFreeMp3(file: Uint8Array): boolean {
  const start = skipId3(file);
  const headerAt = (at: number) =>
    (file[at]! << 24 | file[at + 1]! << 16 | file[at + 2]! << 8 | file[at + 3]!) & SHARED_MASK;
  const header = headerAt(start);
  const isHeader = file[start] === SYNC_BYTE && header >>> 21 === 0x7ff &&
    (header >>> 19 & 3) !== 1 && (header >>> 17 & 3) !== 0 &&
    (header >>> 12 & 15) === FREE_BITRATE && (header >>> 10 & 3) !== 3;
  if (!isHeader) return false;
  const next = (at: number, numBytes: number) =>
    PADDING_BYTES.map((padding) => at + numBytes + padding).find((each) =>
      headerAt(each) === header
    );
  for (let numBytes = HEADER_BYTES; numBytes <= MAX_FREE_BYTES; numBytes++) {
    const second = start + numBytes;
    if (headerAt(second) !== header) continue;
    const third = next(second, numBytes);
    if (third !== undefined && next(third, numBytes) !== undefined) return true;
  }
  return false;
}

/** A frame's header, decoded. */
export interface SyncFrame {
  /** Bytes of the whole frame, including its header. */
  readonly numBytes: number;
  /** Equal for frames that can belong to one stream. */
  readonly kind: number;
}

/** Parses the frame header at an offset; `undefined` if there is none. */
type FrameParser = (file: Uint8Array, at: number) => SyncFrame | undefined;

/** The first byte of every frame. */
export const SYNC_BYTE = 0xff;

/** Number of consecutive frames that identify a stream where frames are expected. */
const FRAMES_TO_BELIEVE = 3;
/** Number of consecutive frames that identify a stream where the data may be anything. */
const FRAMES_TO_BELIEVE_ANYWHERE = 6;
/** Maximum number of bytes before the first frame. */
const MAX_JUNK_BEFORE_BYTES = 65_536;

/** Limits for the search. */
interface FrameSearch {
  readonly maxBytes: number;
  readonly parse: FrameParser;
  readonly minFrames?: number;
}

/** Finds the first frame of a file: after its tags, or after the rest of a truncated frame. */
export function findFirstFrame(file: Uint8Array, parse: FrameParser): number | undefined {
  const start = skipId3(file);
  if (beginsFrames(file, start, parse)) return start;
  // In arbitrary data, three consecutive headers are not rare: every tenth 64 KiB of 16-bit speech contains them.
  return findFrames(file, start + 1, {
    maxBytes: MAX_JUNK_BEFORE_BYTES,
    parse,
    minFrames: FRAMES_TO_BELIEVE_ANYWHERE,
  });
}

/** Finds the first offset within `maxBytes` after `at` where several frames of one kind follow each other. */
export function findFrames(
  file: Uint8Array,
  at: number,
  { maxBytes, parse, minFrames = FRAMES_TO_BELIEVE }: FrameSearch,
): number | undefined {
  for (
    let start = file.indexOf(SYNC_BYTE, at);
    start >= 0 && start < at + maxBytes;
    start = file.indexOf(SYNC_BYTE, start + 1)
  ) {
    if (beginsFrames(file, start, parse, minFrames)) return start;
  }
  return undefined;
}

/** Whether several frames of one kind follow each other, beginning at `start`. */
function beginsFrames(
  file: Uint8Array,
  start: number,
  parse: FrameParser,
  minFrames = FRAMES_TO_BELIEVE,
): boolean {
  const kind = parse(file, start)?.kind;
  let at = start;
  for (let i = 0; i < minFrames; i++) {
    const frame = parse(file, at);
    if (frame === undefined || frame.kind !== kind) return false;
    at += frame.numBytes;
    // A file may have fewer frames than are wanted.
    if (at === file.length) return true;
  }
  return true;
}

const TAG_HEADER_BYTES = 10;
const HAS_FOOTER = 0x10;

/** The offset of a file's content after its ID3v2 tags. */
export function skipId3(file: Uint8Array): number {
  let at = 0;
  while (file[at] === 0x49 && file[at + 1] === 0x44 && file[at + 2] === 0x33) {
    const [a, b, c, d] = file.subarray(at + 6, at + TAG_HEADER_BYTES);
    if (d === undefined) return file.length;
    const size = (a! & 127) << 21 | (b! & 127) << 14 | (c! & 127) << 7 | d & 127;
    const footer = file[at + 5]! & HAS_FOOTER ? TAG_HEADER_BYTES : 0;
    at = Math.min(file.length, at + TAG_HEADER_BYTES + size + footer);
  }
  return at;
}
