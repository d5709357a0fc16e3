/**
 * Reads MPEG audio: MP3, and layers I and II.
 *
 * @module
 */
import { skipId3 } from "./id3.ts";
import { findMpegFrames, type MpegFrame, parseMpegFrame } from "./mpeg_frames.ts";
import { ErrorBudget, invalidAudio, type Sound } from "./sound.ts";

/** Most bytes before the first frame; between frames there may be more. */
const MAX_JUNK_BEFORE_BYTES = 65_536;
const MAX_JUNK_BYTES = 1 << 20;
const PIECE_BYTES = 32_768;
/** A file with a smaller share of the frames that its header promises is truncated. */
const MIN_FRAMES_SHARE = 0.98;

/** Where the frames begin if a file is MPEG audio. */
export function findMp3(file: Uint8Array): number | undefined {
  return findMpegFrames(file, skipId3(file), MAX_JUNK_BEFORE_BYTES);
}

/**
 * Decodes MPEG audio. Bytes between its frames are skipped, as is the encoder's padding where the file gives its
 * length.
 *
 * @throws {HearthError} `invalid_media` when the file was cut.
 */
export async function* readMp3(file: Uint8Array<ArrayBuffer>): AsyncGenerator<Sound, void> {
  const start = findMp3(file);
  if (start === undefined) throw invalidAudio("The MP3 file holds no frames.");
  const { MPEGDecoder } = await import("mpg123-decoder");
  const decoder = new MPEGDecoder();
  await decoder.ready;
  try {
    const budget = new ErrorBudget();
    let numFrames = 0;
    for (const piece of splitFrames(file, start)) {
      numFrames += piece.numFrames;
      const { channelData, sampleRate, errors } = decoder.decode(piece.bytes);
      budget.spend(errors);
      yield { channels: channelData, sampleRateHz: sampleRate };
    }
    const promised = readFrameCount(file, start);
    if (numFrames < promised * MIN_FRAMES_SHARE) {
      throw invalidAudio(
        `The MP3 file was cut: its header promises ${promised} frames, and ${numFrames} are there.`,
      );
    }
  } finally {
    decoder.free();
  }
}

/** Runs of whole frames of one kind. */
function* splitFrames(
  file: Uint8Array<ArrayBuffer>,
  start: number,
): Generator<{ bytes: Uint8Array<ArrayBuffer>; numFrames: number }> {
  let from: number | undefined = start;
  while (from !== undefined) {
    let frame: MpegFrame | undefined = parseMpegFrame(file, from);
    const kind: number | undefined = frame?.kind;
    let end: number = from;
    let numFrames = 0;
    while (
      frame?.kind === kind && end + frame!.numBytes <= file.length && end - from < PIECE_BYTES
    ) {
      end += frame!.numBytes;
      numFrames++;
      frame = parseMpegFrame(file, end);
    }
    if (numFrames > 0) yield { bytes: file.subarray(from, end), numFrames };
    const goesOn: boolean = numFrames > 0 && frame?.kind === kind;
    from = goesOn ? end : findMpegFrames(file, Math.max(end, from + 1), MAX_JUNK_BYTES);
  }
}

/** The number of frames in a `Xing` or `Info` header; 0 where there is none. */
function readFrameCount(file: Uint8Array, start: number): number {
  const at = start + parseMpegFrame(file, start)!.dataOffset;
  const tag = String.fromCharCode(...file.subarray(at, at + 4));
  if (tag !== "Xing" && tag !== "Info") return 0;
  const view = new DataView(file.buffer, file.byteOffset + at, 12);
  const hasCount = (view.getUint32(4) & 1) === 1;
  return hasCount ? view.getUint32(8) : 0;
}
