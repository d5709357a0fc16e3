/**
 * The codebooks and scale factors of a channel's bands (ISO/IEC 14496-3, sections 4.6.2 and 4.6.3).
 *
 * @module
 */
import type { BitReader } from "../bit_reader.ts";
import { Codebook, SCALE_FACTOR_CODEBOOK } from "./codebooks.ts";
import { SEQUENCE, type WindowLayout } from "./bands.ts";

/** Codebook numbers with a special meaning. */
export const CODEBOOK = {
  /** All coefficients are 0. */
  zero: 0,
  reserved: 12,
  noise: 13,
  /** The coefficients are those of the pair's first channel, perhaps with the opposite sign. */
  oppositeIntensity: 14,
  intensity: 15,
} as const;

/**
 * Offset of a scale factor: this value means a factor of 1 on 16-bit integers, and a coded difference of 0 means this
 * value.
 */
const UNIT_SCALE = 100;
const NO_DIFFERENCE = 60;
const MAX_SCALE = 255;
const NOISE_OFFSET = 90;
const NOISE_START_BITS = 9;
const FULL_SCALE = 32_768;

let scaleCodebook: Codebook | undefined;

/**
 * @returns u8 `[groups, bands]`
 * @throws {RangeError} when there are too many bands.
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
        throw new RangeError(`The AAC data code ${length} bands by codebook ${codebook}.`);
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
