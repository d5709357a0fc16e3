/**
 * Decodes the ADPCM of Microsoft and of the IMA, in the layouts of WAV, QuickTime, AIFF-C and CAF.
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

/** @param difference the function of a step and the lower three bits of a code that gives the change of the sample. */
function nextIma(
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

/**
 * The two ways to compute the difference: by one multiplication, or as a sum of shifted steps. They round differently.
 */
const multiplied = (step: number, size: number) => (2 * size + 1) * step >> 3;
const summed = (step: number, size: number) =>
  (step >> 3) + (size & 4 ? step : 0) + (size & 2 ? step >> 1 : 0) + (size & 1 ? step >> 2 : 0);

/** Decodes blocks of WAV: a first sample and a step index of each channel, then four bytes of each channel in turn. */
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
          samples[at++] = nextIma(state, byte & 15, multiplied);
          samples[at++] = nextIma(state, byte >> 4, multiplied);
        }
      }
      return samples;
    });
  };
}

/** Bytes of one channel's packet in Apple's layout, which holds 64 samples. */
export const APPLE_IMA_BYTES = 34;
/**
 * A packet's header stores its first sample rounded: a value at most this far from the last sample means that sample.
 */
const APPLE_ROUNDING = 0x7f;

/**
 * Decodes packets of QuickTime, AIFF-C and CAF, of each channel in turn. Decoder state carries over from packet to
 * packet.
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
        samples[2 * i] = nextIma(state, byte & 15, summed);
        samples[2 * i + 1] = nextIma(state, byte >> 4, summed);
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
