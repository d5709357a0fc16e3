/**
 * Decodes Apple Lossless: residuals in adaptive Golomb codes, and linear prediction that adapts to the signs of the
 * residuals.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { BitReader } from "../file_bytes.ts";
import { checkSampleRate, ErrorBudget, type Sound, toFloats } from "./sound.ts";

/** The content of a magic cookie, the codec's header. */
interface AlacConfig {
  readonly frameSamples: number;
  readonly depth: number;
  /** How fast the mean of the Golomb codes adapts. */
  readonly historyRate: number;
  /** Initial mean of the Golomb codes. */
  readonly initialHistory: number;
  /** Maximum number of bits in the remainder of a Golomb code. */
  readonly maxRemainderBits: number;
  readonly numChannels: number;
  readonly sampleRateHz: number;
}

const CONFIG_BYTES = 24;
const MAX_FRAME_SAMPLES = 1 << 16;
const MAX_CHANNELS = 8;
const ELEMENT = { single: 0, pair: 1, low: 3, data: 4, fill: 6, end: 7 } as const;

/** @param cookie may be wrapped in boxes `frma` and `alac`. */
function readConfig(cookie: Uint8Array): AlacConfig {
  let start = 0;
  const text = String.fromCharCode(...cookie.subarray(0, 64));
  if (text.slice(4, 8) === "frma") start = 12;
  if (text.slice(start + 4, start + 8) === "alac") start += 12;
  if (cookie.length < start + CONFIG_BYTES) {
    throw invalidMedia("The Apple Lossless header is cut short.");
  }
  const view = new DataView(cookie.buffer, cookie.byteOffset + start);
  const config = {
    frameSamples: view.getUint32(0),
    depth: view.getUint8(5),
    historyRate: view.getUint8(6),
    initialHistory: view.getUint8(7),
    maxRemainderBits: view.getUint8(8),
    numChannels: view.getUint8(9),
    sampleRateHz: view.getUint32(20),
  };
  const { frameSamples, depth, numChannels } = config;
  if (
    frameSamples < 1 || frameSamples > MAX_FRAME_SAMPLES || ![16, 20, 24, 32].includes(depth) ||
    numChannels < 1 || numChannels > MAX_CHANNELS
  ) {
    throw invalidMedia(
      `The Apple Lossless header gives ${frameSamples} samples a frame, ${depth} bits and ${numChannels} channels. ` +
        `Expected are 1 to ${MAX_FRAME_SAMPLES} samples, 16, 20, 24 or 32 bits, and 1 to ${MAX_CHANNELS} channels.`,
    );
  }
  checkSampleRate(config.sampleRateHz);
  return config;
}

/**
 * Decodes packets, leaving out damaged ones.
 *
 * @throws {HearthError} `invalid_media` when the cookie is not a header of Apple Lossless, or when there are too many
 * damaged packets.
 */
export async function* decodeAlac(
  cookie: Uint8Array,
  packets: Iterable<Uint8Array>,
): AsyncGenerator<Sound, void> {
  const config = readConfig(cookie);
  const budget = new ErrorBudget();
  for (const packet of packets) {
    let channels: Int32Array[] = [];
    try {
      channels = decodePacket(packet, config);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      budget.spend([error]);
    }
    if (channels.length === 0) continue;
    yield {
      channels: channels.map((channel) => toFloats(channel, config.depth)),
      sampleRateHz: config.sampleRateHz,
    };
  }
}

function decodePacket(packet: Uint8Array, config: AlacConfig): Int32Array[] {
  const bits = new BitReader(packet);
  const channels: Int32Array[] = [];
  for (let element = bits.read(3); element !== ELEMENT.end; element = bits.read(3)) {
    if (element === ELEMENT.single || element === ELEMENT.low) {
      channels.push(...readElement(bits, config, 1));
    } else if (element === ELEMENT.pair) {
      channels.push(...readElement(bits, config, 2));
    } else if (element === ELEMENT.data || element === ELEMENT.fill) {
      skipElement(bits, element);
    } else {
      throw new RangeError(`The Apple Lossless packet has an element of type ${element}.`);
    }
    if (channels.length > config.numChannels || bits.bitsLeft < 3) break;
  }
  const length = channels[0]?.length ?? 0;
  return channels.every((channel) => channel.length === length) ? channels : [];
}

function skipElement(bits: BitReader, element: number): void {
  if (element === ELEMENT.data) {
    bits.skip(4);
    const isAligned = bits.read(1) === 1;
    let numBytes = bits.read(8);
    if (numBytes === 255) numBytes += bits.read(8);
    if (isAligned) bits.skip((8 - bits.position % 8) % 8);
    bits.skip(8 * numBytes);
    return;
  }
  let numBytes = bits.read(4);
  if (numBytes === 15) numBytes += bits.read(8) - 1;
  bits.skip(8 * numBytes);
}

/** Reads the samples of one or two channels. */
function readElement(bits: BitReader, config: AlacConfig, numChannels: 1 | 2): Int32Array[] {
  bits.skip(4 + 12);
  const hasLength = bits.read(1) === 1;
  const lowBits = 8 * bits.read(2);
  const isVerbatim = bits.read(1) === 1;
  const length = hasLength ? bits.read(32) : config.frameSamples;
  if (length > config.frameSamples) throw new RangeError("The Apple Lossless packet is too long.");
  const channels = Array.from({ length: numChannels }, () => new Int32Array(length));
  if (isVerbatim) {
    for (let i = 0; i < length; i++) {
      for (const channel of channels) channel[i] = bits.readSigned(config.depth);
    }
    return channels;
  }
  const width = config.depth - lowBits + numChannels - 1;
  const mixBits = bits.read(8);
  const mixWeight = bits.readSigned(8);
  const predictors = channels.map(() => {
    const mode = bits.read(4);
    const shift = bits.read(4);
    const rateFactor = bits.read(3);
    const coefficients = Int16Array.from({ length: bits.read(5) }, () => bits.readSigned(16));
    return { mode, shift, rateFactor, coefficients };
  });
  const low = channels.map(() => new Int32Array(lowBits === 0 ? 0 : length));
  for (let i = 0; i < length && lowBits > 0; i++) {
    for (const channel of low) channel[i] = bits.read(lowBits);
  }
  for (const [i, { mode, shift, rateFactor, coefficients }] of predictors.entries()) {
    const channel = channels[i]!;
    readResiduals(bits, channel, { config, rate: config.historyRate * rateFactor >> 2, width });
    if (mode !== 0) sumUp(channel, width);
    predict(channel, { coefficients, shift, width });
  }
  if (numChannels === 2) unmix(channels[0]!, channels[1]!, { mixBits, mixWeight });
  if (lowBits > 0) {
    for (const [i, channel] of channels.entries()) {
      for (let k = 0; k < length; k++) channel[k] = channel[k]! << lowBits | low[i]![k]!;
    }
  }
  return channels;
}

/** The mean of the codes is a fixed-point number with 9 fractional bits. */
const MEAN_BITS = 9;
/** Largest mean, and length of the longest run of zeros: only after such a run may another 0 follow. */
const MAX_MEAN = 0xffff;
/** When the mean is below this, a code for a run of zeros follows. */
const ZERO_RUN_MEAN = 1 << MEAN_BITS - 2;
/** This many ones mean that the value follows uncoded. */
const ESCAPE_ONES = 9;

/** Reads residuals in adaptive Golomb codes. */
function readResiduals(
  bits: BitReader,
  residuals: Int32Array,
  { config, rate, width }: {
    readonly config: AlacConfig;
    readonly rate: number;
    readonly width: number;
  },
): void {
  const maxBits = config.maxRemainderBits;
  let mean = config.initialHistory;
  /** Added to the next code. It is 1 after a run of zeros, because another 0 would belong to the run. */
  let offset = 0;
  for (let i = 0; i < residuals.length;) {
    const remainderBits = Math.min(maxBits, 31 - Math.clz32((mean >> MEAN_BITS) + 3));
    const code =
      readGolomb(bits, remainderBits, { divisor: (1 << remainderBits) - 1, escapeBits: width }) +
      offset;
    residuals[i++] = code % 2 === 0 ? code / 2 : -(code + 1) / 2;
    mean = code - offset > MAX_MEAN ? MAX_MEAN : rate * code + mean - (rate * mean >> MEAN_BITS);
    offset = 0;
    if (mean < ZERO_RUN_MEAN && i < residuals.length) {
      const runBits = Math.clz32(mean) - 24 + (mean + 16 >> 6);
      const divisor = (1 << runBits) - 1 & (1 << maxBits) - 1;
      const run = readGolomb(bits, runBits, { divisor, escapeBits: 16 });
      if (i + run > residuals.length) {
        throw new RangeError("The Apple Lossless packet has too many zeros.");
      }
      i += run;
      offset = run < MAX_MEAN ? 1 : 0;
      mean = 0;
    }
  }
}

/** Reads a Golomb code: ones ended by a zero, then a remainder whose smallest value takes one bit less. */
function readGolomb(
  bits: BitReader,
  remainderBits: number,
  { divisor, escapeBits }: { readonly divisor: number; readonly escapeBits: number },
): number {
  let ones = 0;
  while (ones < ESCAPE_ONES && bits.read(1) === 1) ones++;
  if (ones === ESCAPE_ONES) return bits.read(escapeBits);
  if (remainderBits <= 1) return ones * (remainderBits === 1 ? divisor : 0);
  const high = bits.read(remainderBits - 1);
  if (high === 0) return ones * divisor;
  return ones * divisor + (high << 1 | bits.read(1)) - 1;
}

/** Turns differences between neighbours into values, in place. */
function sumUp(values: Int32Array, width: number): void {
  const spare = 32 - width;
  for (let i = 1; i < values.length; i++) values[i] = values[i]! + values[i - 1]! << spare >> spare;
}

/** Adds predictions to residuals, in place. The filter adapts to the signs of the residuals. */
function predict(
  values: Int32Array,
  { coefficients, shift, width }: {
    readonly coefficients: Int16Array;
    readonly shift: number;
    readonly width: number;
  },
): void {
  const order = coefficients.length;
  if (order === 0) return;
  const spare = 32 - width;
  const half = shift === 0 ? 0 : 1 << shift - 1;
  if (order === 31) return sumUp(values, width);
  for (let i = 1; i < Math.min(order + 1, values.length); i++) {
    values[i] = values[i]! + values[i - 1]! << spare >> spare;
  }
  for (let i = order + 1; i < values.length; i++) {
    const base = values[i - order - 1]!;
    let sum = 0;
    for (let k = 0; k < order; k++) sum += coefficients[k]! * (values[i - 1 - k]! - base);
    const residual = values[i]!;
    values[i] = residual + base + Math.floor((sum + half) / 2 ** shift) << spare >> spare;
    let left = residual;
    const sign = Math.sign(residual);
    for (let k = order - 1; k >= 0 && left * sign > 0; k--) {
      const difference = base - values[i - 1 - k]!;
      const direction = Math.sign(difference) * sign;
      coefficients[k]! -= direction;
      left -= (order - k) * (direction * difference >> shift);
    }
  }
}

/** Converts a weighted mean and a difference to left and right, in place. */
function unmix(
  first: Int32Array,
  second: Int32Array,
  { mixBits, mixWeight }: { readonly mixBits: number; readonly mixWeight: number },
): void {
  if (mixWeight === 0) return;
  for (let i = 0; i < first.length; i++) {
    const difference = second[i]!;
    const left = first[i]! + difference - (mixWeight * difference >> mixBits);
    first[i] = left;
    second[i] = left - difference;
  }
}
