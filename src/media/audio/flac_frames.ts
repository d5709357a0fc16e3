/**
 * Finds the frames of a FLAC stream (RFC 9639, section 9). Only their checksums distinguish them from other data.
 *
 * @module
 */
import { SYNC_BYTE } from "./sync_frames.ts";

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
