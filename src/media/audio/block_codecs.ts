/**
 * Decodes codecs that store speech in blocks: the ADPCM of Microsoft and of the IMA, in the layouts of WAV, QuickTime,
 * AIFF-C and CAF; and GSM 06.10 full rate (ETSI EN 300 961), following its 16-bit arithmetic to the bit.
 *
 * @module
 */

/** Decodes a block to i16 samples of each channel. */
export type BlockDecoder = (block: Uint8Array) => Int16Array[];

const STEPS =
  `7 8 9 10 11 12 13 14 16 17 19 21 23 25 28 31 34 37 41 45 50 55 60 66 73 80 88 97 107 118
  130 143 157 173 190 209 230 253 279 307 337 371 408 449 494 544 598 658 724 796 876 963
  1060 1166 1282 1411 1552 1707 1878 2066 2272 2499 2749 3024 3327 3660 4026 4428 4871
  5358 5894 6484 7132 7845 8630 9493 10442 11487 12635 13899 15289 16818 18500 20350 22385
  24623 27086 29794 32767`.split(/\s+/).map(Number);
const INDEX_CHANGES = [-1, -1, -1, -1, 2, 4, 6, 8];

const clip = (value: number) => Math.max(-32_768, Math.min(32_767, value));
const clipIndex = (index: number) => Math.max(0, Math.min(STEPS.length - 1, index));

interface ImaState {
  sample: number;
  index: number;
}

/** @param difference computes the change of the sample from a step and the lower three bits of a code. */
function decodeImaCode(
  state: ImaState,
  code: number,
  difference: (step: number, size: number) => number,
): number {
  const size = code & 7;
  const change = difference(STEPS[state.index]!, size);
  state.sample = clip(state.sample + (code & 8 ? -change : change));
  state.index = clipIndex(state.index + INDEX_CHANGES[size]!);
  return state.sample;
}

/** Computes the difference by one multiplication, as for WAV. */
const multiplyStep = (step: number, size: number) => (2 * size + 1) * step >> 3;
/** Computes the difference as a sum of shifted steps, as Apple does. It rounds differently. */
const addSteps = (step: number, size: number) =>
  (step >> 3) + (size & 4 ? step : 0) + (size & 2 ? step >> 1 : 0) + (size & 1 ? step >> 2 : 0);

/** Decodes a WAV block: each channel's first sample and step index, then four bytes of each channel in turn. */
export function createWavIma(numChannels: number): BlockDecoder {
  return (block) => {
    const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
    const numGroups = Math.floor((block.length - 4 * numChannels) / (4 * numChannels));
    return Array.from({ length: numChannels }, (_, channel) => {
      const samples = new Int16Array(1 + 8 * Math.max(0, numGroups));
      if (block.length < 4 * numChannels) return samples.subarray(0, 0);
      const state = {
        sample: view.getInt16(4 * channel, true),
        index: clipIndex(view.getUint8(4 * channel + 2)),
      };
      samples[0] = state.sample;
      for (let group = 0, at = 1; group < numGroups; group++) {
        const start = 4 * (numChannels * (group + 1) + channel);
        for (const byte of block.subarray(start, start + 4)) {
          samples[at++] = decodeImaCode(state, byte & 15, multiplyStep);
          samples[at++] = decodeImaCode(state, byte >> 4, multiplyStep);
        }
      }
      return samples;
    });
  };
}

/** Bytes of one channel's packet in Apple's layout. A packet holds 64 samples. */
export const APPLE_IMA_BYTES = 34;
/**
 * A packet's header repeats the previous packet's last sample, rounded, and its step index. If the sample differs from
 * the decoded one by at most this much, and the index is the same, decoding continues from the decoded sample.
 */
const APPLE_ROUNDING = 0x7f;

/**
 * Decodes a block of QuickTime, AIFF-C or CAF: one packet for each channel. Decoder state carries over to the next
 * block.
 */
export function createAppleIma(numChannels: number): BlockDecoder {
  const states = Array.from({ length: numChannels }, (): ImaState => ({ sample: 0, index: 0 }));
  return (block) =>
    states.map((state, channel) => {
      const packet = block.subarray(channel * APPLE_IMA_BYTES, (channel + 1) * APPLE_IMA_BYTES);
      if (packet.length < APPLE_IMA_BYTES) return new Int16Array();
      const head = packet[0]! << 8 | packet[1]!;
      const sample = (head & 0xff80) << 16 >> 16;
      const index = clipIndex(head & 0x7f);
      const isSame = index === state.index && Math.abs(sample - state.sample) <= APPLE_ROUNDING;
      if (!isSame) Object.assign(state, { sample, index });
      const samples = new Int16Array(64);
      for (let i = 0; i < 32; i++) {
        const byte = packet[2 + i]!;
        samples[2 * i] = decodeImaCode(state, byte & 15, addSteps);
        samples[2 * i + 1] = decodeImaCode(state, byte >> 4, addSteps);
      }
      return samples;
    });
}

const MS_ADAPTATION = "230 230 230 230 307 409 512 614 768 614 512 409 307 230 230 230"
  .split(" ").map(Number);
const MS_COEFFICIENTS = [
  [256, 0],
  [512, -256],
  [0, 0],
  [192, 64],
  [240, 0],
  [460, -208],
  [392, -232],
] as const;
const MS_MIN_DELTA = 16;
/** Bytes in each channel's header: the predictor, a delta and two samples. */
const MS_HEAD_BYTES = 7;

/** Decodes blocks of Microsoft's ADPCM. */
export function createMsAdpcm(numChannels: number): BlockDecoder {
  return (block) => {
    const headBytes = MS_HEAD_BYTES * numChannels;
    if (block.length < headBytes) {
      return Array.from({ length: numChannels }, () => new Int16Array());
    }
    const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
    const numCodes = Math.floor(2 * (block.length - headBytes) / numChannels);
    const field = (index: number, channel: number) =>
      view.getInt16(numChannels + 2 * (index * numChannels + channel), true);
    const states = Array.from({ length: numChannels }, (_, channel) => ({
      coefficients: MS_COEFFICIENTS[block[channel]!] ?? MS_COEFFICIENTS[0],
      delta: field(0, channel),
      last: field(1, channel),
      beforeLast: field(2, channel),
    }));
    const channels = states.map(({ last, beforeLast }) => {
      const samples = new Int16Array(2 + numCodes);
      samples.set([beforeLast, last]);
      return samples;
    });
    for (let i = 0; i < numCodes * numChannels; i++) {
      const byte = block[headBytes + (i >> 1)]!;
      const code = i % 2 === 0 ? byte >> 4 : byte & 15;
      const state = states[i % numChannels]!;
      const [first, second] = state.coefficients;
      const predicted = Math.trunc((state.last * first + state.beforeLast * second) / 256);
      const sample = clip(predicted + (code << 28 >> 28) * state.delta);
      state.beforeLast = state.last;
      state.last = sample;
      state.delta = Math.max(MS_MIN_DELTA, MS_ADAPTATION[code]! * state.delta >> 8);
      channels[i % numChannels]![2 + Math.floor(i / numChannels)] = sample;
    }
    return channels;
  };
}

/** Bytes of a frame of 160 samples. */
export const GSM_FRAME_BYTES = 33;
/** Bytes of a pair of frames in WAV. */
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

const multiply = (a: number, b: number) => clip(a * b + 16_384 >> 15);

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
      const shifted = clip((read(numBits) + LAR_MIN[i]!) << 10);
      const scaled = multiply(LAR_INVERSE[i]!, clip(shifted - (LAR_OFFSET[i]! << 1)));
      return clip(2 * scaled);
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
      excitation[MAX_LAG + k] = clip(pulse + echo);
    }
    const current = excitation.slice(MAX_LAG);
    excitation.copyWithin(0, SUBFRAME_SAMPLES);
    return current;
  }

  /**
   * Applies the lattice filter and then de-emphasis, in place. The coefficients of the filter change gradually from the
   * last frame's to this frame's.
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
      const reflections = ratios.map((_, i) => toReflection(clip(mix(i))));
      for (let k = start; k < end; k++) samples[k] = this.#next(samples[k]!, reflections);
    }
  }

  #next(excitation: number, reflections: readonly number[]): number {
    const filter = this.#filter;
    let value = excitation;
    for (let i = 7; i >= 0; i--) {
      value = clip(value - multiply(reflections[i]!, filter[i]!));
      filter[i + 1] = clip(filter[i]! + multiply(reflections[i]!, value));
    }
    filter[0] = value;
    this.#emphasis = clip(value + multiply(this.#emphasis, DEEMPHASIS));
    return clip(2 * this.#emphasis) & ~7;
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
    return clip(scaled + half) >> shift;
  });
}

/** Converts a logarithmic area ratio to a reflection coefficient. */
function toReflection(ratio: number): number {
  const size = Math.min(32_767, Math.abs(ratio));
  const reflection = size < 11_059
    ? size << 1
    : size < 20_070
    ? size + 11_059
    : clip((size >> 2) + 26_112);
  return ratio < 0 ? -reflection : reflection;
}
