/**
 * Log-mel features of the Universal Speech Model (arXiv 2303.01037), which the audio encoders of Gemma 3n and 4 take.
 *
 * Per frame `f`, with `x` the samples, `h` the Hann window and `F` HTK's mel filters:
 *
 *     magnitude[k, f] = |Σ_n h[n] (x[f hop + n] - preemphasis x[f hop + n - 1]) e^(-2πi nk / size)|
 *     out[f, m]       = log(max(Σ_k F[m, k] magnitude[k, f], floor))            Gemma 3n
 *     out[f, m]       = log(Σ_k F[m, k] magnitude[k, f] + floor)                Gemma 4
 *
 * A window is shorter than the transform, and at the beginning of each frame `x[-1] = x[0]`. None of that fits
 * `log_mel`, whose kernels are made for Whisper's windows and scale. So the features are always computed on the CPU:
 * windows in f32, as in the reference implementation, and the rest in f64.
 *
 * @module
 */
import { PowerSpectrum } from "./log_mel_reference.ts";
import { makeHannWindow, makeHtkFilters, type MelFilter } from "./log_mel_spec.ts";

/** Sizes of a model's features, from `preprocessor_config.json` or `feature_extractor` in `processor_config.json`. */
interface UsmSpec {
  readonly mels: number;
  readonly sampleRateHz: number;
  /** Number of samples in a window. */
  readonly frameSamples: number;
  readonly hopSamples: number;
  /** Number of samples in a transform. */
  readonly fftSamples: number;
  readonly preemphasis: number;
  readonly lowestHz: number;
  readonly highestHz: number;
  readonly floor: number;
  /** Gemma 4: half a window of silence precedes the sound, and the floor is added to each filter's sum. */
  readonly isSemicausal: boolean;
}

/** A sound as the encoder's input. */
interface UsmInput {
  /** f32 `[frames, mels]`; 0 for frames whose `mask` is 0. */
  readonly features: Float32Array<ArrayBuffer>;
  /** 1 for frames that lie within the sound, otherwise 0: `[frames]`. */
  readonly mask: Uint8Array<ArrayBuffer>;
}

/** Sounds are padded with silence to a multiple of this number of samples. */
const PADDED_TO = 128;

/**
 * Reads the specification; missing values default to those of Gemma 3n, or of Gemma 4 if `isSemicausal`.
 *
 * @throws {RangeError} when a value cannot be used.
 */
export function readUsmSpec(
  config: Readonly<Record<string, unknown>>,
  { isSemicausal }: Pick<UsmSpec, "isSemicausal">,
): UsmSpec {
  const read = (name: string, fallback: number, least: number): number => {
    const value = config[name] ?? fallback;
    if (typeof value === "number" && value >= least && value < 2 ** 20) return value;
    throw new RangeError(
      `${name} is ${JSON.stringify(value)}; a number of at least ${least} is expected.`,
    );
  };
  const refuse = (name: string, isOff: (value: unknown) => boolean) => {
    const value = config[name] ?? undefined;
    if (value === undefined || isOff(value)) return;
    throw new RangeError(`${name} is ${JSON.stringify(value)}, which is not supported.`);
  };
  // No released model sets these fields to other values.
  for (const name of ["dither", "per_bin_mean", "per_bin_stddev"]) refuse(name, (value) => !value);
  refuse("input_scale_factor", (value) => value === 1);
  refuse("preemphasis_htk_flavor", (value) => value === true);
  const sampleRateHz = read("sampling_rate", 16_000, 1000);
  const frameMs = read("frame_length_ms", isSemicausal ? 20 : 32, 1);
  const frameSamples = read("frame_length", Math.round(sampleRateHz * frameMs / 1000), 2);
  const power = 2 ** Math.ceil(Math.log2(frameSamples));
  const isOverdriven = config["fft_overdrive"] ?? !isSemicausal;
  const fftSamples = read("fft_length", isOverdriven ? 2 * power : power, frameSamples);
  const hopMs = read("hop_length_ms", 10, 1);
  return {
    mels: read("feature_size", 128, 1),
    sampleRateHz,
    frameSamples,
    hopSamples: read("hop_length", Math.round(sampleRateHz * hopMs / 1000), 1),
    fftSamples,
    preemphasis: read("preemphasis", isSemicausal ? 0 : 0.97, 0),
    lowestHz: read("min_frequency", isSemicausal ? 0 : 125, 0),
    highestHz: read("max_frequency", isSemicausal ? 8000 : 7600, 1),
    floor: read("mel_floor", isSemicausal ? 1e-3 : 1e-5, Number.MIN_VALUE),
    isSemicausal,
  };
}

/** Number of frames of `numSamples` samples. The padding of {@linkcode UsmFeatures.compute} may add one frame. */
export function countUsmFrames(
  { frameSamples, hopSamples, isSemicausal }: UsmSpec,
  numSamples: number,
): number {
  const before = isSemicausal ? Math.floor(frameSamples / 2) : 0;
  // A frame takes one more sample than its window has.
  return Math.max(0, Math.floor((numSamples + before - frameSamples - 1) / hopSamples) + 1);
}

export class UsmFeatures {
  readonly spec: UsmSpec;
  /** f32 values, as in the reference implementation. */
  readonly #window: Float32Array;
  readonly #frame: Float32Array;
  readonly #spectrum: PowerSpectrum;
  readonly #filters: readonly MelFilter[];

  /** @throws {RangeError} when there is no transform of this size. */
  constructor(spec: UsmSpec) {
    this.spec = spec;
    this.#window = Float32Array.from(makeHannWindow(spec.frameSamples));
    this.#frame = new Float32Array(spec.fftSamples);
    // The window is applied here, in f32.
    this.#spectrum = new PowerSpectrum(new Float64Array(spec.fftSamples).fill(1));
    this.#filters = makeHtkFilters(spec);
  }

  /**
   * @param samples f32 at the specification's rate.
   * @param options.yieldToOthers awaited after every `yieldEvery` frames, which take a few milliseconds.
   */
  async compute(
    samples: Float32Array,
    { yieldEvery, yieldToOthers }: {
      readonly yieldEvery: number;
      readonly yieldToOthers: () => Promise<void>;
    },
  ): Promise<UsmInput> {
    const { spec } = this;
    const { mels, frameSamples, hopSamples, isSemicausal, floor } = spec;
    const before = isSemicausal ? Math.floor(frameSamples / 2) : 0;
    const padded = new Float32Array(before + Math.ceil(samples.length / PADDED_TO) * PADDED_TO);
    padded.set(samples, before);
    const numFrames = countUsmFrames(spec, padded.length - before);
    const features = new Float32Array(numFrames * mels);
    const mask = new Uint8Array(numFrames);
    for (let frame = 0; frame < numFrames; frame++) {
      if (frame % yieldEvery === yieldEvery - 1) await yieldToOthers();
      const start = frame * hopSamples;
      const last = isSemicausal ? start + frameSamples : start;
      if (last >= before + samples.length) continue;
      mask[frame] = 1;
      this.#load(padded, start);
      this.#spectrum.compute(this.#frame, 0);
      const row = features.subarray(frame * mels, (frame + 1) * mels);
      for (let mel = 0; mel < mels; mel++) {
        const sum = this.#apply(this.#filters[mel]!);
        row[mel] = Math.log(isSemicausal ? sum + floor : Math.max(sum, floor));
      }
    }
    return { features, mask };
  }

  /** Windows a frame, rounding to f32 as the reference implementation does. */
  #load(samples: Float32Array, start: number): void {
    const frame = this.#frame;
    const window = this.#window;
    const preemphasis = Math.fround(this.spec.preemphasis);
    const first = Math.fround(1 - this.spec.preemphasis);
    frame[0] = Math.fround(samples[start]! * first) * window[0]!;
    for (let i = 1; i < window.length; i++) {
      const before = Math.fround(preemphasis * samples[start + i - 1]!);
      frame[i] = Math.fround(samples[start + i]! - before) * window[i]!;
    }
  }

  #apply({ firstBin, weights }: MelFilter): number {
    const { power } = this.#spectrum;
    let sum = 0;
    for (let i = 0; i < weights.length; i++) sum += weights[i]! * Math.sqrt(power[firstBin + i]!);
    return sum;
  }
}
