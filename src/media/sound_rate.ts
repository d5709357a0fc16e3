/**
 * Changes the sample rate of sound with a polyphase filter: a sinc under a Kaiser window (Kaiser 1974; Crochiere and
 * Rabiner 1983, chapter 4). Changes the speed of speech without changing its pitch: waveform similarity overlap-add
 * (WSOLA; Verhelst and Roelands, "An overlap-add technique based on waveform similarity for high quality time-scale
 * modification of speech", 1993).
 *
 * @module
 */
import { bessel } from "./fft.ts";

/** End of the passband, as a share of the lower of the two Nyquist frequencies. */
const PASS_BAND = 0.9;
/** Attenuation above the lower Nyquist frequency. */
const REJECTION_DB = 90;
/** Maximum number of filters in a bank. If the ratio of the rates needs more, each output uses the nearest filter. */
const MAX_PHASES = 1024;

/** One filter for each phase of an output sample between two input samples. */
interface FilterBank {
  readonly numTaps: number;
  /** f32 `[phases][numTaps]`. */
  readonly filters: readonly Float32Array[];
}

const banks = new Map<string, FilterBank>();

/** Resamples one channel chunk by chunk. Output sample `n` is the sound at time `n / outputRate`. */
export class AudioResampler {
  readonly #bank: FilterBank;
  readonly #inputRateHz: number;
  readonly #outputRateHz: number;
  /** The last inputs within a filter's length, followed by new ones. */
  #history: Float32Array;
  /** Number of inputs dropped from the history, including the silence before the sound. */
  #numDropped = 0;
  #numInputs = 0;
  #numOutputs = 0;

  /** @param inputRateHz positive and finite, as is `outputRateHz`. */
  constructor(inputRateHz: number, outputRateHz: number) {
    this.#bank = getBank(inputRateHz, outputRateHz);
    this.#inputRateHz = inputRateHz;
    this.#outputRateHz = outputRateHz;
    // With this much silence before the sound, the first filter is centred on the first sample.
    this.#history = new Float32Array(this.#bank.numTaps / 2 - 1);
  }

  /** @returns the outputs that can be computed from the inputs so far. */
  push(input: Float32Array): Float32Array<ArrayBuffer> {
    this.#numInputs += input.length;
    return this.#filter(input, Infinity);
  }

  /** @returns the last outputs, computed as if silence followed the sound. */
  flush(): Float32Array<ArrayBuffer> {
    const total = Math.ceil(this.#numInputs * this.#outputRateHz / this.#inputRateHz);
    const silence = new Float32Array(this.#bank.numTaps / 2 + 2);
    return this.#filter(silence, total - this.#numOutputs);
  }

  #filter(input: Float32Array, maxOutputs: number): Float32Array<ArrayBuffer> {
    const { numTaps, filters } = this.#bank;
    const samples = new Float32Array(this.#history.length + input.length);
    samples.set(this.#history);
    samples.set(input, this.#history.length);

    const lastStart = samples.length - numTaps + this.#numDropped;
    const ready = Math.ceil(lastStart * this.#outputRateHz / this.#inputRateHz) - this.#numOutputs;
    const output = new Float32Array(Math.max(0, Math.min(ready, maxOutputs)));
    for (let n = 0; n < output.length; n++) {
      const position = (this.#numOutputs + n) * this.#inputRateHz / this.#outputRateHz;
      const before = Math.floor(position);
      const phase = Math.round((position - before) * filters.length);
      const start = before - this.#numDropped;
      output[n] = phase < filters.length
        ? convolve(samples, start, filters[phase]!)
        : convolve(samples, start + 1, filters[0]!);
    }
    this.#numOutputs += output.length;
    const next = Math.floor(this.#numOutputs * this.#inputRateHz / this.#outputRateHz);
    this.#history = samples.slice(next - this.#numDropped);
    this.#numDropped += samples.length - this.#history.length;
    return output;
  }
}

/**
 * Computes `Σ samples[start + i] taps[i]`. The number of taps is a multiple of 4: four sums at once are a quarter
 * faster than one.
 */
function convolve(samples: Float32Array, start: number, taps: Float32Array): number {
  let a = 0, b = 0, c = 0, d = 0;
  for (let i = start, j = 0; j < taps.length; i += 4, j += 4) {
    a += samples[i]! * taps[j]!;
    b += samples[i + 1]! * taps[j + 1]!;
    c += samples[i + 2]! * taps[j + 2]!;
    d += samples[i + 3]! * taps[j + 3]!;
  }
  return (a + b) + (c + d);
}

function getBank(inputRateHz: number, outputRateHz: number): FilterBank {
  const key = `${inputRateHz} ${outputRateHz}`;
  let bank = banks.get(key);
  if (bank === undefined) {
    // The cache is bounded: a few rates recur, and files with odd rates must not fill the memory.
    if (banks.size >= 16) banks.clear();
    banks.set(key, bank = makeBank(inputRateHz, outputRateHz));
  }
  return bank;
}

function makeBank(inputRateHz: number, outputRateHz: number): FilterBank {
  const numPhases = Math.min(
    MAX_PHASES,
    outputRateHz / findGreatestDivisor(inputRateHz, outputRateHz),
  );
  // From here on, frequencies are in cycles per input sample.
  const nyquist = Math.min(0.5, 0.5 * outputRateHz / inputRateHz);
  const transition = nyquist * (1 - PASS_BAND);
  const cutoff = nyquist - transition / 2;
  const numTaps = 4 * Math.ceil((REJECTION_DB - 7.95) / (2.285 * 2 * Math.PI * transition) / 4);
  const beta = 0.1102 * (REJECTION_DB - 8.7);
  const filters = Array.from({ length: numPhases }, (_, phase) => {
    const filter = Float64Array.from({ length: numTaps }, (_, tap) => {
      const t = tap - (numTaps / 2 - 1) - phase / numPhases;
      return sinc(2 * cutoff * t) * kaiser(t / (numTaps / 2), beta);
    });
    // Each filter gets unit gain at 0 Hz; otherwise the phases would modulate a constant.
    const gain = filter.reduce((sum, tap) => sum + tap, 0);
    return Float32Array.from(filter, (tap) => tap / gain);
  });
  return { numTaps, filters };
}

/**
 * Finds the greatest common divisor. If a rate is not an integer, returns a number close to 0, so that the bank gets
 * the most phases.
 */
function findGreatestDivisor(a: number, b: number): number {
  if (!Number.isInteger(a) || !Number.isInteger(b)) return Number.MIN_VALUE;
  return b === 0 ? a : findGreatestDivisor(b, a % b);
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

function kaiser(x: number, beta: number): number {
  return Math.abs(x) > 1 ? 0 : bessel(beta * Math.sqrt(1 - x * x)) / bessel(beta);
}

/** Length of a frame: more than two periods of a low voice (80 Hz). */
const FRAME_SECONDS = 0.03;
/** The longest shift of a frame to match the previous frame: one period of that voice. */
const SEARCH_SECONDS = 0.0125;
/** Only every second sample is compared, which is enough. */
const COMPARED_STRIDE = 2;

/**
 * Changes the speed of speech without changing its pitch.
 *
 * @param options.speed factor; above 1 is faster.
 * @returns about `samples.length / speed` samples, owned by the caller; `samples` itself if the speed is 1 or the sound
 * is too short.
 */
export function stretchTime(
  samples: Float32Array<ArrayBuffer>,
  { speed, sampleRateHz }: { readonly speed: number; readonly sampleRateHz: number },
): Float32Array<ArrayBuffer> {
  const hop = Math.round(FRAME_SECONDS * sampleRateHz / 2);
  if (speed === 1 || samples.length < 4 * hop) return samples;
  const search = Math.round(SEARCH_SECONDS * sampleRateHz);
  const window = Float32Array.from(
    { length: 2 * hop },
    (_, i) => 0.5 - 0.5 * Math.cos(Math.PI * (i + 0.5) / hop),
  );
  const length = Math.round(samples.length / speed);
  const numFrames = Math.ceil(length / hop);
  const output = new Float32Array((numFrames + 2) * hop);
  // Frames overlap by half, and the two halves of the window add up to 1. The first half of the first frame overlaps
  // with no other frame, so it is copied.
  output.set(samples.subarray(0, hop));
  let previous = 0;
  for (let frame = 0; frame <= numFrames; frame++) {
    const wanted = Math.round(frame * hop * speed);
    const start = frame === 0
      ? 0
      : findFit(samples, { continuation: previous + hop, wanted, search, hop });
    const isFirst = frame === 0;
    for (let i = isFirst ? hop : 0; i < 2 * hop; i++) {
      output[frame * hop + i]! += window[i]! * (samples[start + i] ?? 0);
    }
    previous = start;
  }
  return output.slice(0, length);
}

/**
 * Finds the frame near `wanted` that is most similar to the one at `continuation`, which lies half a frame after the
 * previous one and would continue it without a seam.
 *
 * @returns the index of its first sample.
 */
function findFit(
  samples: Float32Array,
  { continuation, wanted, search, hop }: {
    readonly continuation: number;
    readonly wanted: number;
    readonly search: number;
    readonly hop: number;
  },
): number {
  const first = Math.max(0, wanted - search);
  const last = Math.min(samples.length - 2 * hop, wanted + search);
  if (continuation + 2 * hop > samples.length || last <= first) {
    return Math.max(0, Math.min(wanted, last));
  }
  let best = Math.min(wanted, last);
  let most = -Infinity;
  for (let start = first; start <= last; start++) {
    let product = 0;
    let energy = 1e-9;
    for (let i = 0; i < 2 * hop; i += COMPARED_STRIDE) {
      const sample = samples[start + i]!;
      product += sample * samples[continuation + i]!;
      energy += sample * sample;
    }
    const similarity = product / Math.sqrt(energy);
    if (similarity > most) [best, most] = [start, similarity];
  }
  return best;
}
