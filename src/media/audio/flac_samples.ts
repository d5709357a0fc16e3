/**
 * Decodes single FLAC frames of any bit depth (RFC 9639, sections 9 and 10). The WebAssembly decoder gives silence for
 * depths that are not whole bytes.
 *
 * @module
 */
import { BitReader } from "../bit_reader.ts";
import type { Sound } from "./sound.ts";

/** Properties of the stream, for frames that do not repeat them. */
interface FlacStream {
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
  const scale = 2 ** (depth - 1);
  return {
    channels: values.map((channel) => Float32Array.from(channel, (value) => value / scale)),
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
  const scale = 2 ** shift;
  for (let i = order; i < values.length; i++) {
    let sum = 0;
    for (let k = 0; k < order; k++) sum += coefficients[k]! * values[i - 1 - k]!;
    values[i]! += Math.floor(sum / scale);
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
    for (let i = start; i < end; i++) {
      if (parameter === escape) {
        values[i] = rawBits === 0 ? 0 : bits.readSigned(rawBits);
        continue;
      }
      const code = bits.readUnary() * 2 ** parameter + bits.read(parameter);
      values[i] = code % 2 === 0 ? code / 2 : -(code + 1) / 2;
    }
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
