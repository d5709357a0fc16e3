/**
 * The scale factors and the coefficients of a channel (ISO/IEC 14496-3, sections 4.6.1 to 4.6.3 and 4.6.13).
 *
 * @module
 */
import type { BitReader } from "../../file_bytes.ts";
import {
  Codebook,
  SCALE_FACTOR_CODEBOOK,
  SEQUENCE,
  SPECTRUM_CODEBOOKS,
  type WindowLayout,
} from "./tables.ts";

/** The context for reading a channel's coefficients. */
interface SpectrumOptions {
  readonly layout: WindowLayout;
  /** u8 `[groups, bands]`. */
  readonly codebooks: Uint8Array;
  /** f64 `[groups, bands]`. */
  readonly scales: Float64Array;
  readonly pulses: readonly Pulse[];
  readonly noise: NoiseSource;
}

/** A pulse, which moves one coefficient of a long window away from 0. */
export interface Pulse {
  readonly at: number;
  readonly amplitude: number;
}

/** A part of the spectrum with one codebook and one scale. */
interface Region {
  readonly start: number;
  readonly end: number;
  readonly codebook: number;
  readonly scale: number;
}

/** How a codeword's value encodes coefficients: each is one of the value's `numValues` digits in base `base`. */
interface Shape {
  readonly numValues: number;
  readonly base: number;
  /** Whether a digit of `(base - 1) / 2` means 0; otherwise digits are magnitudes, and sign bits follow. */
  readonly isSigned: boolean;
}

const FRAME_SIZE = 1024;
/** In this codebook, a magnitude of {@linkcode ESCAPE} means that the actual magnitude follows as a separate number. */
const ESCAPE_CODEBOOK = 11;
const ESCAPE = 16;
/** Maximum number of bits that follow the leading 1 of a separate magnitude. */
const MAX_ESCAPE_BITS = 12;

const SHAPES: readonly Shape[] = [
  [4, 3, true],
  [4, 3, true],
  [4, 3, false],
  [4, 3, false],
  [2, 9, true],
  [2, 9, true],
  [2, 8, false],
  [2, 8, false],
  [2, 13, false],
  [2, 13, false],
  [2, 17, false],
].map((shape) => {
  const [numValues, base, isSigned] = shape as [number, number, boolean];
  return { numValues, base, isSigned };
});

/** A deterministic source of random numbers, so that a file always decodes to the same sound. */
export class NoiseSource {
  #state = 1;

  /** Returns a random signed 32-bit integer. */
  next(): number {
    // Numerical Recipes' generator.
    return this.#state = Math.imul(this.#state, 1_664_525) + 1_013_904_223 | 0;
  }
}

let codebooks: readonly Codebook[] | undefined;

/**
 * @returns f64 `[1024]`; bands of intensity stereo are 0.
 * @throws {RangeError} when the bits are invalid.
 */
export function readSpectrum(bits: BitReader, options: SpectrumOptions): Float64Array {
  const quantized = new Int32Array(FRAME_SIZE);
  const regions = [...listRegions(options)];
  for (const region of regions) readRegion(bits, region, quantized);
  for (const { at, amplitude } of options.pulses) {
    quantized[at]! += quantized[at]! > 0 ? amplitude : -amplitude;
  }
  const spectrum = new Float64Array(FRAME_SIZE);
  for (const region of regions) {
    if (region.codebook === CODEBOOK.noise) fillWithNoise(spectrum, region, options.noise);
    else dequantize(quantized, spectrum, region);
  }
  return spectrum;
}

function* listRegions({ layout, codebooks, scales }: SpectrumOptions): Generator<Region> {
  const { groups, bands, numBands, windowSize } = layout;
  let firstWindow = 0;
  for (const [group, numWindows] of groups.entries()) {
    for (let band = 0; band < numBands; band++) {
      const codebook = codebooks[group * numBands + band]!;
      const scale = scales[group * numBands + band]!;
      for (let window = firstWindow; window < firstWindow + numWindows; window++) {
        const start = window * windowSize + bands.offsets[band]!;
        const end = window * windowSize + bands.offsets[band + 1]!;
        yield { start, end, codebook, scale };
      }
    }
    firstWindow += numWindows;
  }
}

function isCoded(codebook: number): boolean {
  return codebook > CODEBOOK.zero && codebook < CODEBOOK.reserved;
}

function readRegion(bits: BitReader, region: Region, quantized: Int32Array): void {
  const { start, end, codebook } = region;
  if (!isCoded(codebook)) return;
  codebooks ??= SPECTRUM_CODEBOOKS.map((text) => new Codebook(text));
  const words = codebooks[codebook - 1]!;
  const { numValues, base, isSigned } = SHAPES[codebook - 1]!;
  const middle = isSigned ? (base - 1) / 2 : 0;
  for (let at = start; at < end; at += numValues) {
    let word = words.read(bits);
    for (let i = at + numValues - 1; i >= at; i--) {
      quantized[i] = word % base - middle;
      word = Math.floor(word / base);
    }
    if (isSigned) continue;
    const signs = readSigns(bits, quantized, at, numValues);
    for (let i = at; i < at + numValues; i++) {
      if (codebook === ESCAPE_CODEBOOK && quantized[i] === ESCAPE) quantized[i] = readEscape(bits);
      if ((signs >> (i - at) & 1) === 1) quantized[i] = -quantized[i]!;
    }
  }
}

/**
 * Reads the signs, one bit for each value other than 0.
 *
 * @returns the bits, set for negative values.
 */
function readSigns(bits: BitReader, quantized: Int32Array, at: number, count: number): number {
  let signs = 0;
  for (let i = 0; i < count; i++) {
    if (quantized[at + i] !== 0) signs |= bits.read(1) << i;
  }
  return signs;
}

function readEscape(bits: BitReader): number {
  let length = 4;
  while (bits.read(1) === 1) length++;
  if (length > MAX_ESCAPE_BITS) {
    throw new RangeError(`The AAC data have an escaped value of ${length} bits.`);
  }
  return 2 ** length + bits.read(length);
}

function dequantize(
  quantized: Int32Array,
  spectrum: Float64Array,
  { start, end, codebook, scale }: Region,
): void {
  if (!isCoded(codebook)) return;
  for (let i = start; i < end; i++) {
    const value = quantized[i]!;
    if (value !== 0) spectrum[i] = scale * Math.cbrt(value) * Math.abs(value);
  }
}

/** Fills a region with noise whose norm is the region's scale. */
function fillWithNoise(
  spectrum: Float64Array,
  { start, end, scale }: Region,
  noise: NoiseSource,
): void {
  let energy = 0;
  for (let i = start; i < end; i++) {
    const value = noise.next();
    spectrum[i] = value;
    energy += value * value;
  }
  const factor = scale / Math.sqrt(energy);
  for (let i = start; i < end; i++) spectrum[i]! *= factor;
}

/** Codebook numbers with a special meaning. */
export const CODEBOOK = {
  /** All coefficients are 0. */
  zero: 0,
  reserved: 12,
  noise: 13,
  /** Like `intensity`, but with the opposite sign. */
  oppositeIntensity: 14,
  /** The coefficients are the ones of the pair's first channel, times a factor. */
  intensity: 15,
} as const;

/** The scale that means a factor of 1 on 16-bit integers. */
const UNIT_SCALE = 100;
/** The code of two equal scales: the codebook holds differences, plus this offset. */
const NO_DIFFERENCE = 60;
const MAX_SCALE = 255;
const NOISE_OFFSET = 90;
const NOISE_START_BITS = 9;
const FULL_SCALE = 32_768;

let scaleCodebook: Codebook | undefined;

/**
 * @returns u8 `[groups, bands]`
 * @throws {RangeError} when there are too many bands, or a codebook is reserved.
 */
export function readSections(bits: BitReader, layout: WindowLayout): Uint8Array {
  const { groups, numBands } = layout;
  const lengthBits = layout.sequence === SEQUENCE.short ? 3 : 5;
  const escape = 2 ** lengthBits - 1;
  const codebooks = new Uint8Array(groups.length * numBands);
  for (let group = 0; group < groups.length; group++) {
    for (let band = 0; band < numBands;) {
      const codebook = bits.read(4);
      let length = 0;
      let part: number;
      do {
        part = bits.read(lengthBits);
        length += part;
      } while (part === escape);
      if (codebook === CODEBOOK.reserved || band + length > numBands) {
        throw new RangeError(`The AAC data use codebook ${codebook} for ${length} bands.`);
      }
      codebooks.fill(codebook, group * numBands + band, group * numBands + band + length);
      band += length;
    }
  }
  return codebooks;
}

/**
 * @returns f64 `[groups, bands]`: by codebook, factors on coefficients, amplitudes of noise, or factors on the pair's
 * first channel.
 * @throws {RangeError} when a scale leaves its range.
 */
export function readScales(
  bits: BitReader,
  codebooks: Uint8Array,
  globalGain: number,
): Float64Array {
  scaleCodebook ??= new Codebook(SCALE_FACTOR_CODEBOOK);
  const readDifference = () => scaleCodebook!.read(bits) - NO_DIFFERENCE;
  let scale = globalGain;
  let position = 0;
  let noise = globalGain - NOISE_OFFSET;
  let hasNoise = false;
  return Float64Array.from(codebooks, (codebook) => {
    switch (codebook) {
      case CODEBOOK.zero:
        return 0;
      case CODEBOOK.intensity:
      case CODEBOOK.oppositeIntensity:
        position += readDifference();
        return 2 ** (-position / 4);
      case CODEBOOK.noise:
        noise += hasNoise ? readDifference() : bits.read(NOISE_START_BITS) - 256;
        hasNoise = true;
        return 2 ** (noise / 4) / FULL_SCALE;
      default:
        scale += readDifference();
        if (scale < 0 || scale > MAX_SCALE) {
          throw new RangeError(`The AAC data give a band a scale of ${scale}.`);
        }
        return 2 ** ((scale - UNIT_SCALE) / 4) / FULL_SCALE;
    }
  });
}
