/**
 * Single FLAC frames (RFC 9639, section 9): splits a stream into frames, verifies them, and decodes them.
 *
 * @module
 */
import { BitReader } from "../file_bytes.ts";
import { type Sound, toFloats } from "./sound.ts";

/** Properties of the stream, for frames that do not repeat them. */
export interface FlacStream {
  readonly sampleRateHz: number;
  readonly bitsPerSample: number;
}

const RATES_HZ = [
  0,
  88_200,
  176_400,
  192_000,
  8_000,
  16_000,
  22_050,
  24_000,
  32_000,
  44_100,
  48_000,
  96_000,
];
const BITS = [0, 8, 12, 0, 16, 20, 24, 32];
const ASSIGNMENT = { leftSide: 8, sideRight: 9, midSide: 10 } as const;
/** Coefficients of the previous values, the latest first: extrapolation by a polynomial (section 9.2.5). */
const FIXED_COEFFICIENTS = [[], [1], [2, -1], [3, -3, 1], [4, -6, 4, -1]] as const;
const SUBFRAME = { constant: 0, verbatim: 1, fixed: 8, linear: 32 } as const;

/**
 * Decodes a whole, undamaged frame.
 *
 * @throws {RangeError} when it uses reserved values.
 */
export function decodeFlacFrame(frame: Uint8Array, stream: FlacStream): Sound {
  const bits = new BitReader(frame);
  bits.skip(16);
  const sizeCode = bits.read(4);
  const rateCode = bits.read(4);
  const assignment = bits.read(4);
  const depth = BITS[bits.read(3)] || stream.bitsPerSample;
  bits.skip(1);
  let numberOnes = 0;
  while (bits.read(1) === 1) numberOnes++;
  bits.skip(7 - numberOnes + 8 * Math.max(0, numberOnes - 1));
  const length = readBlockSize(bits, sizeCode);
  const sampleRateHz = readRate(bits, rateCode) || stream.sampleRateHz;
  bits.skip(8);
  const isStereo = assignment >= ASSIGNMENT.leftSide;
  const numChannels = isStereo ? 2 : assignment + 1;
  const sideChannel = assignment === ASSIGNMENT.sideRight ? 0 : 1;
  const values = Array.from({ length: numChannels }, (_, channel) => {
    const isSide = isStereo && channel === sideChannel;
    return readSubframe(bits, { length, depth: depth + (isSide ? 1 : 0) });
  });
  if (isStereo) joinStereo(values[0]!, values[1]!, assignment);
  return {
    channels: values.map((channel) => toFloats(channel, depth)),
    sampleRateHz,
  };
}

function readBlockSize(bits: BitReader, code: number): number {
  if (code === 1) return 192;
  if (code <= 5) return 576 << (code - 2);
  if (code === 6) return bits.read(8) + 1;
  return code === 7 ? bits.read(16) + 1 : 256 << (code - 8);
}

function readRate(bits: BitReader, code: number): number {
  if (code === 12) return bits.read(8) * 1_000;
  if (code === 13) return bits.read(16);
  return code === 14 ? bits.read(16) * 10 : RATES_HZ[code] ?? 0;
}

/**
 * Reads the values of one channel. They are floating-point numbers, since a side channel of 32-bit samples has 33 bits.
 */
function readSubframe(
  bits: BitReader,
  { length, depth }: { readonly length: number; readonly depth: number },
): Float64Array {
  bits.skip(1);
  const type = bits.read(6);
  let wasted = 0;
  if (bits.read(1) === 1) {
    wasted = 1 + bits.readUnary();
  }
  const width = depth - wasted;
  const values = new Float64Array(length);
  if (type === SUBFRAME.constant) {
    values.fill(bits.readSigned(width));
  } else if (type === SUBFRAME.verbatim) {
    for (let i = 0; i < length; i++) values[i] = bits.readSigned(width);
  } else if (type >= SUBFRAME.linear) {
    const order = type - SUBFRAME.linear + 1;
    for (let i = 0; i < order; i++) values[i] = bits.readSigned(width);
    const precision = bits.read(4) + 1;
    const shift = bits.readSigned(5);
    const coefficients = Array.from({ length: order }, () => bits.readSigned(precision));
    predict(values, bits, { coefficients, shift });
  } else if (type >= SUBFRAME.fixed && type < SUBFRAME.fixed + FIXED_COEFFICIENTS.length) {
    const coefficients = FIXED_COEFFICIENTS[type - SUBFRAME.fixed]!;
    for (let i = 0; i < coefficients.length; i++) values[i] = bits.readSigned(width);
    predict(values, bits, { coefficients, shift: 0 });
  } else {
    throw new RangeError(`The FLAC subframe is of the reserved type ${type}.`);
  }
  if (wasted > 0) { for (let i = 0; i < length; i++) values[i]! *= 2 ** wasted; }
  return values;
}

/**
 * Adds predictions from the previous values to residuals. The first values, as many as coefficients, are already final.
 */
function predict(
  values: Float64Array,
  bits: BitReader,
  { coefficients, shift }: { readonly coefficients: readonly number[]; readonly shift: number },
): void {
  const order = coefficients.length;
  readResiduals(values, bits, order);
  const scale = 2 ** -shift;
  // The latest value comes last, so that both arrays are read upwards.
  const factors = Float64Array.from(coefficients).reverse();
  for (let i = order; i < values.length; i++) {
    let sum = 0;
    for (let k = 0, at = i - order; k < order; k++, at++) sum += factors[k]! * values[at]!;
    values[i]! += Math.floor(sum * scale);
  }
}

/** Reads Rice codes, in partitions of equal length (section 9.2.7). */
function readResiduals(values: Float64Array, bits: BitReader, order: number): void {
  const parameterBits = bits.read(2) === 0 ? 4 : 5;
  const escape = 2 ** parameterBits - 1;
  const numPartitions = 2 ** bits.read(4);
  for (let partition = 0; partition < numPartitions; partition++) {
    const start = partition === 0 ? order : partition * values.length / numPartitions;
    const end = (partition + 1) * values.length / numPartitions;
    const parameter = bits.read(parameterBits);
    const rawBits = parameter === escape ? bits.read(5) : 0;
    if (parameter !== escape) {
      bits.readRiceCodes(values, start, end, parameter);
      continue;
    }
    for (let i = start; i < end; i++) values[i] = rawBits === 0 ? 0 : bits.readSigned(rawBits);
  }
}

/** Converts sums and differences of two channels to the channels, in place. */
function joinStereo(first: Float64Array, second: Float64Array, assignment: number): void {
  for (let i = 0; i < first.length; i++) {
    const [a, b] = [first[i]!, second[i]!];
    if (assignment === ASSIGNMENT.leftSide) {
      second[i] = a - b;
    } else if (assignment === ASSIGNMENT.sideRight) {
      first[i] = a + b;
    } else {
      const mid = a * 2 + (b % 2 === 0 ? 0 : 1);
      first[i] = (mid + b) / 2;
      second[i] = (mid - b) / 2;
    }
  }
}

/** The first byte of every frame. */
const SYNC_BYTE = 0xff;
const CRC8 = makeTable({ polynomial: 0x07, numBits: 8 });
const CRC16 = makeTable({ polynomial: 0x8005, numBits: 16 });

/** Minimum number of bytes after a frame's header: a subframe's header and the checksum. */
const MIN_BODY_BYTES = 3;
/** More than any encoder writes: twice an uncompressed frame (8 channels × 16,384 samples × 4 bytes). */
const MAX_FRAME_BYTES = 1 << 20;
const RESERVED_RATE = 15;
const RESERVED_BITS = 3;
const MAX_CHANNELS_CODE = 10;
/** Beginnings of tags that follow the last frame: ID3v1, APE, ID3v2. */
const TAGS = ["TAG", "APETAGEX", "ID3", "3DI"];

/**
 * Splits a stream into its frames. Damaged data become one chunk that ends at the next frame's header. If the stream is
 * truncated, the rest of its last frame is the last chunk.
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
  for (const byte of bytes) check = updateChecksum(check, byte);
  return check === 0;
}

/** The offset after the frame at `start`, or after the damaged data there. */
function findEnd(stream: Uint8Array, start: number): number {
  const last = Math.min(stream.length, start + MAX_FRAME_BYTES);
  const minEnd = start + Math.max(1, measureHeader(stream, start)) + MIN_BODY_BYTES;
  let nextHeader: number | undefined;
  let firstEnd: number | undefined;
  let check = 0;
  for (let at = start; at < last; at++) {
    if (at >= minEnd) {
      const isHeader = measureHeader(stream, at) > 0;
      if (check === 0 && (isHeader || beginsTag(stream, at))) return at;
      // Data can look like a header, so a header counts only if the frame has no valid end.
      if (isHeader) nextHeader ??= at;
      // Bytes of no known kind may follow the last frame.
      if (check === 0) firstEnd ??= at;
    }
    check = updateChecksum(check, stream[at]!);
  }
  const isWhole = last === stream.length && check === 0;
  return isWhole ? last : nextHeader ?? firstEnd ?? last;
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

/** Bytes of a frame's or sample's number, which is coded as in UTF-8; 0 if its first byte is invalid. */
function countNumberBytes(first: number): number {
  const numOnes = Math.clz32(~(first << 24));
  return numOnes === 1 || numOnes > 7 ? 0 : Math.max(1, numOnes);
}

/** Adds a byte to a checksum. The checksum of a whole frame, with the frame's own checksum at its end, is 0. */
function updateChecksum(check: number, byte: number): number {
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
