/**
 * Decodes GSM 06.10 full-rate speech (ETSI EN 300 961), following its 16-bit arithmetic to the bit.
 *
 * @module
 */
import type { BlockDecoder } from "./adpcm.ts";

/** Bytes of a frame of 160 samples; and in WAV, of two frames. */
export const GSM_FRAME_BYTES = 33;
export const GSM_WAV_BYTES = 65;

const FRAME_SAMPLES = 160;
const SUBFRAME_SAMPLES = 40;
const MAX_LAG = 120;
const LAR_BITS = [6, 6, 5, 5, 4, 4, 3, 3];
const LAR_MIN = [-32, -32, -16, -16, -8, -8, -4, -4];
const LAR_OFFSET = [0, 0, 2048, -2560, 94, -1792, -341, -1144];
const LAR_INVERSE = [13_107, 13_107, 13_107, 13_107, 19_223, 17_476, 31_454, 29_708];
const GAINS = [3_277, 11_469, 21_299, 32_767];
const MANTISSAS = [18_431, 20_479, 22_527, 24_575, 26_623, 28_671, 30_719, 32_767];
const DEEMPHASIS = 28_180;

const saturate = (value: number) => Math.max(-32_768, Math.min(32_767, value));
const multiply = (a: number, b: number) => saturate(a * b + 16_384 >> 15);

/** Reads the next field of a frame. */
type ReadField = (numBits: number) => number;

/** Decodes frames of 33 bytes, the layout of AIFF-C and QuickTime; the highest bit of a byte comes first. */
export function createGsm(): BlockDecoder {
  const decoder = new GsmDecoder();
  return (block) => {
    if (block.length < GSM_FRAME_BYTES) return [new Int16Array()];
    // The first four bits are a signature.
    return [decoder.decode(createField(block, 4, (byte, bit) => byte >> (7 - bit) & 1, "high"))];
  };
}

/** Decodes pairs of frames in 65 bytes, the layout of WAV; the lowest bit of a byte comes first. */
export function createWavGsm(): BlockDecoder {
  const decoder = new GsmDecoder();
  return (block) => {
    if (block.length < GSM_WAV_BYTES) return [new Int16Array()];
    const read = createField(block, 0, (byte, bit) => byte >> bit & 1, "low");
    return [Int16Array.of(...decoder.decode(read), ...decoder.decode(read))];
  };
}

function createField(
  block: Uint8Array,
  start: number,
  getBit: (byte: number, bit: number) => number,
  first: "high" | "low",
): ReadField {
  let at = start;
  return (numBits) => {
    let value = 0;
    for (let i = 0; i < numBits; i++, at++) {
      const bit = getBit(block[at >> 3]!, at & 7);
      value = first === "high" ? value << 1 | bit : value | bit << i;
    }
    return value;
  };
}

class GsmDecoder {
  /** The last {@linkcode MAX_LAG} samples of the excitation, followed by the current subframe. */
  readonly #excitation = new Int16Array(MAX_LAG + SUBFRAME_SAMPLES);
  #lag = SUBFRAME_SAMPLES;
  #ratios: number[] = new Array(8).fill(0);
  readonly #filter = new Array<number>(9).fill(0);
  #emphasis = 0;

  decode(read: ReadField): Int16Array {
    const ratios = LAR_BITS.map((numBits, i) => {
      const shifted = saturate((read(numBits) + LAR_MIN[i]!) << 10);
      const scaled = multiply(LAR_INVERSE[i]!, saturate(shifted - (LAR_OFFSET[i]! << 1)));
      return saturate(2 * scaled);
    });
    const samples = new Int16Array(FRAME_SAMPLES);
    for (let start = 0; start < FRAME_SAMPLES; start += SUBFRAME_SAMPLES) {
      samples.set(this.#excite(read), start);
    }
    this.#synthesize(samples, ratios);
    this.#ratios = ratios;
    return samples;
  }

  /** Makes the excitation of a subframe: the pulses of its grid, added to the earlier excitation at a lag. */
  #excite(read: ReadField): Int16Array {
    const lag = read(7);
    const gain = GAINS[read(2)]!;
    const grid = read(2);
    const pulses = readPulses(read);
    if (lag >= SUBFRAME_SAMPLES && lag <= MAX_LAG) this.#lag = lag;
    const excitation = this.#excitation;
    for (let k = 0; k < SUBFRAME_SAMPLES; k++) {
      const pulse = k >= grid && (k - grid) % 3 === 0 ? pulses[(k - grid) / 3] ?? 0 : 0;
      const echo = multiply(gain, excitation[MAX_LAG + k - this.#lag]!);
      excitation[MAX_LAG + k] = saturate(pulse + echo);
    }
    const current = excitation.slice(MAX_LAG);
    excitation.copyWithin(0, SUBFRAME_SAMPLES);
    return current;
  }

  /**
   * Applies the lattice filter, whose coefficients blend from the last frame's to this one's, then de-emphasis; in
   * place.
   */
  #synthesize(samples: Int16Array, ratios: readonly number[]): void {
    const last = this.#ratios;
    const parts = [
      [0, (i: number) => (last[i]! >> 2) + (ratios[i]! >> 2) + (last[i]! >> 1)],
      [13, (i: number) => (last[i]! >> 1) + (ratios[i]! >> 1)],
      [27, (i: number) => (last[i]! >> 2) + (ratios[i]! >> 2) + (ratios[i]! >> 1)],
      [40, (i: number) => ratios[i]!],
    ] as const;
    for (const [part, [start, mix]] of parts.entries()) {
      const end = parts[part + 1]?.[0] ?? FRAME_SAMPLES;
      const reflections = ratios.map((_, i) => toReflection(saturate(mix(i))));
      for (let k = start; k < end; k++) samples[k] = this.#next(samples[k]!, reflections);
    }
  }

  #next(excitation: number, reflections: readonly number[]): number {
    const filter = this.#filter;
    let value = excitation;
    for (let i = 7; i >= 0; i--) {
      value = saturate(value - multiply(reflections[i]!, filter[i]!));
      filter[i + 1] = saturate(filter[i]! + multiply(reflections[i]!, value));
    }
    filter[0] = value;
    this.#emphasis = saturate(value + multiply(this.#emphasis, DEEMPHASIS));
    return saturate(2 * this.#emphasis) & ~7;
  }
}

/** Reads thirteen pulses: a common exponent and mantissa, and three bits for each. */
function readPulses(read: ReadField): number[] {
  const maximum = read(6);
  let exponent = maximum > 15 ? (maximum >> 3) - 1 : 0;
  let mantissa = maximum - (exponent << 3);
  if (mantissa === 0) {
    exponent = -4;
    mantissa = 7;
  } else {
    while (mantissa <= 7) {
      mantissa = mantissa << 1 | 1;
      exponent--;
    }
    mantissa -= 8;
  }
  const shift = 6 - exponent;
  const half = shift > 0 ? 1 << (shift - 1) : 0;
  return Array.from({ length: 13 }, () => {
    const scaled = multiply(MANTISSAS[mantissa]!, ((read(3) << 1) - 7) << 12);
    return saturate(scaled + half) >> shift;
  });
}

/** Converts a logarithmic area ratio to a reflection coefficient. */
function toReflection(ratio: number): number {
  const size = Math.min(32_767, Math.abs(ratio));
  const reflection = size < 11_059
    ? size << 1
    : size < 20_070
    ? size + 11_059
    : saturate((size >> 2) + 26_112);
  return ratio < 0 ? -reflection : reflection;
}
