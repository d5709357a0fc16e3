/**
 * `log_mel` on the CPU: the reference for the WGSL kernel, and the CPU backend's implementation.
 *
 * Per row and frame `f`, with `x` the row's samples, `h` the Hann window and `F` the mel filters:
 *
 *     power[k, f] = |Σ_n h[n] x[f hop + n] e^(-2πi nk / size)|²
 *     mel[m, f]   = Σ_k F[m, k] power[k, f]
 *     out[m, f]   = (log10(max(mel[m, f], 1e-10, 1e-8 · loudest)) + 4) / 4
 *
 * where `loudest` is the largest `mel` of the row's recording so far. Frames past the recording's end are 0. These are
 * Whisper's features (Radford et al. 2022, section 2.2; `log_mel_spectrogram` in openai/whisper).
 *
 * @module
 */
import {
  countFramesReached,
  type LogMelRow,
  type LogMelSpec,
  makeHannWindow,
  makeMelFilters,
  type MelFilter,
} from "./log_mel_spec.ts";
import { Fft } from "../../src/media/fft.ts";

/** Lower energies are raised to this. */
const LOWEST_MEL = 1e-10;
/** Energies below this share of the recording's loudest are raised to it: a dynamic range of 80 dB. */
const LOWEST_SHARE = 1e-8;

/** Computes features, and remembers the loudness of each recording. */
export class ReferenceLogMel {
  readonly spec: LogMelSpec;
  readonly #spectrum: PowerSpectrum;
  readonly #filters: readonly MelFilter[];
  readonly #loudest: Float64Array;

  constructor(spec: LogMelSpec, maxRecordings: number) {
    this.spec = spec;
    this.#spectrum = new PowerSpectrum(makeHannWindow(spec.fftSamples));
    this.#filters = makeMelFilters(spec);
    this.#loudest = new Float64Array(maxRecordings);
  }

  /** Forgets the loudness of a recording, so that another one can have its index. */
  forget(recording: number): void {
    this.#loudest[recording] = 0;
  }

  /** Only measures the loudness of a row's recording. */
  measure({ samples, recording }: LogMelRow): void {
    const reached = countFramesReached(this.spec, samples.length);
    for (let frame = 0; frame < reached; frame++) {
      this.#spectrum.compute(samples, frame * this.spec.hopSamples);
      for (const filter of this.#filters) this.#count(recording, this.#apply(filter));
    }
  }

  /** @param output f32 `[rows, mels, frames]`. */
  compute(rows: readonly LogMelRow[], output: Float32Array): void {
    const { mels, frames } = this.spec;
    const rowOutput = (index: number) =>
      output.subarray(index * mels * frames, (index + 1) * mels * frames);
    // All energies are computed before the first logarithm, since rows of one recording share their loudest value.
    rows.forEach((row, index) => this.#writeEnergies(row, rowOutput(index)));
    rows.forEach((row, index) => this.#compress(row, rowOutput(index)));
  }

  #writeEnergies({ samples, recording }: LogMelRow, energies: Float32Array): void {
    const { frames, hopSamples } = this.spec;
    const reached = countFramesReached(this.spec, samples.length);
    for (let frame = 0; frame < reached; frame++) {
      this.#spectrum.compute(samples, frame * hopSamples);
      for (let mel = 0, i = frame; mel < this.#filters.length; mel++, i += frames) {
        const energy = this.#apply(this.#filters[mel]!);
        energies[i] = energy;
        this.#count(recording, energy);
      }
    }
    for (let i = 0; i < energies.length; i += frames) energies.fill(0, i + reached, i + frames);
  }

  #compress({ recording, contentFrames }: LogMelRow, values: Float32Array): void {
    const { frames } = this.spec;
    const floor = Math.max(LOWEST_MEL, this.#loudest[recording]! * LOWEST_SHARE);
    for (let i = 0; i < values.length; i++) {
      values[i] = Math.log(Math.max(values[i]!, floor)) * (Math.LOG10E / 4) + 1;
    }
    if (contentFrames >= frames) return;
    for (let i = 0; i < values.length; i += frames) values.fill(0, i + contentFrames, i + frames);
  }

  #apply({ firstBin, weights }: MelFilter): number {
    const { power } = this.#spectrum;
    let sum = 0;
    for (let i = 0; i < weights.length; i++) sum += weights[i]! * power[firstBin + i]!;
    return sum;
  }

  #count(recording: number, mel: number): void {
    if (mel > this.#loudest[recording]!) this.#loudest[recording] = mel;
  }
}

/**
 * The power spectrum of windowed real samples, for `0 ≤ k ≤ size / 2`:
 *
 * `power[k] = |Σ window[n] x[n] e^(-2πi nk / size)|²`
 *
 * Even samples become the real parts and odd samples the imaginary parts of `size / 2` complex numbers. Their transform
 * `Z` gives the transforms of the even samples, `E[k] = (Z[k] + Z*[-k]) / 2`, and of the odd ones, `O[k] = (Z[k] -
 * Z*[-k]) / 2i`. The spectrum is `X[k] = E[k] + w^k O[k]` with `w = e^(-2πi / size)`.
 */
export class PowerSpectrum {
  /** f64 `[size / 2 + 1]`, the result of the last call. */
  readonly power: Float64Array;
  readonly #window: Float64Array;
  readonly #fft: Fft;
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;

  /**
   * @param window has the length of the transform.
   * @throws {RangeError} when the size is odd, or half of it has a prime factor other than 2 and 5.
   */
  constructor(window: Float64Array) {
    const half = window.length / 2;
    if (!Number.isInteger(half)) {
      throw new RangeError(
        `A window of ${window.length} samples was given; an even number is expected.`,
      );
    }
    this.#window = window;
    this.#fft = new Fft(half);
    this.power = new Float64Array(half + 1);
    const angles = Float64Array.from({ length: half / 2 + 1 }, (_, k) => -Math.PI * k / half);
    this.#cos = angles.map(Math.cos);
    this.#sin = angles.map(Math.sin);
  }

  /** Fills {@linkcode power} from the samples beginning at `start`; samples past the end count as 0. */
  compute(samples: Float32Array, start: number): void {
    this.#load(samples, start);
    this.#fft.transform();
    const { re, im } = this.#fft.output;
    const { power } = this;
    const half = this.#fft.size;
    power[0] = (re[0]! + im[0]!) ** 2;
    power[half] = (re[0]! - im[0]!) ** 2;
    for (let k = 1, mirror = half - 1; k <= mirror; k++, mirror--) {
      const evenR = re[k]! + re[mirror]!, evenI = im[k]! - im[mirror]!;
      const oddR = im[k]! + im[mirror]!, oddI = re[mirror]! - re[k]!;
      const rotatedR = oddR * this.#cos[k]! - oddI * this.#sin[k]!;
      const rotatedI = oddR * this.#sin[k]! + oddI * this.#cos[k]!;
      power[k] = ((evenR + rotatedR) ** 2 + (evenI + rotatedI) ** 2) / 4;
      power[mirror] = ((evenR - rotatedR) ** 2 + (evenI - rotatedI) ** 2) / 4;
    }
  }

  #load(samples: Float32Array, start: number): void {
    const { re, im } = this.#fft.input;
    const window = this.#window;
    const size = Math.min(window.length, samples.length - start);
    for (let i = 0; i + 1 < size; i += 2) {
      re[i >> 1] = samples[start + i]! * window[i]!;
      im[i >> 1] = samples[start + i + 1]! * window[i + 1]!;
    }
    if (size === window.length) return;
    const rest = Math.max(0, size);
    re.fill(0, rest >> 1);
    im.fill(0, rest >> 1);
    if (rest % 2 === 1) re[rest >> 1] = samples[start + rest - 1]! * window[rest - 1]!;
  }
}
