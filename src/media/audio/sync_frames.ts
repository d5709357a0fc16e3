/**
 * Finds the frames of files without a container. Each frame begins with a byte of ones, which data may also contain.
 *
 * @module
 */

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

/**
 * How many consecutive frames identify a stream: the first where frames are expected, the second where the file may be
 * anything.
 */
const FRAMES_TO_BELIEVE = 3;
const FRAMES_TO_BELIEVE_ANYWHERE = 6;
/** Most bytes before the first frame. */
const MAX_JUNK_BEFORE_BYTES = 65_536;

/** Limits for the search. */
interface FrameSearch {
  readonly maxBytes: number;
  readonly parse: FrameParser;
  readonly minFrames?: number;
}

/** Finds the first frame of a file: after its tags, or after the rest of a frame that was cut. */
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

/** Finds the first offset from `at` on, within `maxBytes`, where several frames of one kind follow each other. */
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

/** Whether several frames of one kind follow each other from `start` on. */
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
    // A file may have fewer frames than that.
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
