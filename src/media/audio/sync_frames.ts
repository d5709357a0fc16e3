/**
 * Finds the frames of files without a container: those that begin with a byte of ones, which data may also contain; and
 * those of FLAC (RFC 9639, section 9), which only their checksums distinguish from other data.
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

const CRC8 = makeTable({ polynomial: 0x07, numBits: 8 });
const CRC16 = makeTable({ polynomial: 0x8005, numBits: 16 });

/** The least a frame has after its header: a subframe's header and the checksum. */
const MIN_BODY_BYTES = 3;
/** More than any encoder writes: an uncompressed frame of 8 channels of 16,384 samples of 32 bits. */
const MAX_FRAME_BYTES = 1 << 20;
const RESERVED_RATE = 15;
const RESERVED_BITS = 3;
const MAX_CHANNELS_CODE = 10;
/** Beginnings of tags that follow the last frame: ID3v1, APE, ID3v2. */
const TAGS = ["TAG", "APETAGEX", "ID3", "3DI"];

/**
 * Cuts a stream into its frames. Damaged data come as one chunk up to the next frame's header. If the stream is cut,
 * the rest of its last frame comes as the last chunk.
 *
 * @param stream begins with a frame.
 */
export function* splitFlac(
  stream: Uint8Array<ArrayBuffer>,
): Generator<Uint8Array<ArrayBuffer>, void> {
  for (let at = 0; at < stream.length && !beginsTag(stream, at);) {
    const end = findEnd(stream, at);
    yield stream.subarray(at, end);
    at = end;
  }
}

/** Whether the bytes are a whole, undamaged frame. */
export function isFlacFrame(bytes: Uint8Array): boolean {
  if (measureHeader(bytes, 0) === 0) return false;
  let check = 0;
  for (const byte of bytes) check = nextCheck(check, byte);
  return check === 0;
}

/** Whether a frame has at most 256 samples; usually only the last one does. */
export function isShortFrame(frame: Uint8Array): boolean {
  return frame[2]! >> 4 === 6;
}

/**
 * Makes a frame of 4096 silent samples with the number of another frame. Sample rate and bit depth are those of the
 * stream.
 */
export function makeSilentFrame(
  { numChannels, bitsPerSample }: { readonly numChannels: number; readonly bitsPerSample: number },
  numbered: Uint8Array,
): Uint8Array {
  const number = numbered.subarray(4, 4 + countNumberBytes(numbered[4]!));
  const header = [SYNC_BYTE, numbered[1]!, 12 << 4, numChannels - 1 << 4, ...number];
  header.push(header.reduce((check, byte) => CRC8[check ^ byte]!, 0));
  // Each channel is a constant: an 8-bit header and one sample.
  const body = new Uint8Array(Math.ceil(numChannels * (8 + bitsPerSample) / 8));
  const frame = [...header, ...body];
  const check = frame.reduce(nextCheck, 0);
  return Uint8Array.of(...frame, check >> 8, check & 0xff);
}

/** The offset after the frame at `start`, or after the damaged data there. */
function findEnd(stream: Uint8Array, start: number): number {
  const last = Math.min(stream.length, start + MAX_FRAME_BYTES);
  const minEnd = start + Math.max(1, measureHeader(stream, start)) + MIN_BODY_BYTES;
  let nextHeader: number | undefined;
  let check = 0;
  for (let at = start; at < last; at++) {
    if (at >= minEnd) {
      const isHeader = measureHeader(stream, at) > 0;
      if (check === 0 && (isHeader || beginsTag(stream, at))) return at;
      // Data can look like a header, so a header counts only if the frame has no valid end.
      if (isHeader) nextHeader ??= at;
    }
    check = nextCheck(check, stream[at]!);
  }
  const isWhole = last === stream.length && check === 0;
  return isWhole ? last : nextHeader ?? last;
}

/** Bytes of the frame header at an offset, including its checksum; 0 if there is none. */
function measureHeader(stream: Uint8Array, at: number): number {
  if (stream[at] !== SYNC_BYTE || (stream[at + 1]! & 0xfe) !== 0xf8) return 0;
  const [sizeAndRate = 0, channelsAndBits = 0, number = 0] = stream.subarray(at + 2, at + 5);
  const size = sizeAndRate >> 4;
  const rate = sizeAndRate & 15;
  const isReserved = size === 0 || rate === RESERVED_RATE ||
    channelsAndBits >> 4 > MAX_CHANNELS_CODE ||
    (channelsAndBits >> 1 & 7) === RESERVED_BITS || (channelsAndBits & 1) !== 0;
  const numberBytes = countNumberBytes(number);
  if (isReserved || numberBytes === 0) return 0;
  const sizeBytes = size === 6 ? 1 : size === 7 ? 2 : 0;
  const rateBytes = rate === 12 ? 1 : rate === 13 || rate === 14 ? 2 : 0;
  const numBytes = 4 + numberBytes + sizeBytes + rateBytes + 1;
  if (at + numBytes > stream.length) return 0;
  let check = 0;
  for (let i = at; i < at + numBytes; i++) check = CRC8[check ^ stream[i]!]!;
  return check === 0 ? numBytes : 0;
}

/** Bytes of a frame's or sample's number, coded as in UTF-8, from its first byte; 0 if that is invalid. */
function countNumberBytes(first: number): number {
  const numOnes = Math.clz32(~(first << 24));
  return numOnes === 1 || numOnes > 7 ? 0 : Math.max(1, numOnes);
}

/** The next value of the checksum. Over a whole frame including its own checksum, the result is 0. */
function nextCheck(check: number, byte: number): number {
  return (check << 8 & 0xffff) ^ CRC16[check >> 8 ^ byte]!;
}

function beginsTag(stream: Uint8Array, at: number): boolean {
  return TAGS.some((tag) => {
    for (let i = 0; i < tag.length; i++) {
      if (stream[at + i] !== tag.charCodeAt(i)) return false;
    }
    return true;
  });
}

function makeTable(
  { polynomial, numBits }: { readonly polynomial: number; readonly numBits: number },
): Uint16Array {
  const top = 1 << (numBits - 1);
  return Uint16Array.from({ length: 256 }, (_, byte) => {
    let remainder = byte << (numBits - 8);
    for (let bit = 0; bit < 8; bit++) {
      remainder = remainder & top ? remainder << 1 ^ polynomial : remainder << 1;
    }
    return remainder & (top * 2 - 1);
  });
}
