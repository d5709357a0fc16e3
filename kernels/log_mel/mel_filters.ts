/**
 * The window and the filters of a mel spectrogram.
 *
 * @module
 */

/** A triangular filter over the bins of a power spectrum. */
export interface MelFilter {
  readonly firstBin: number;
  readonly weights: Float64Array;
}

/** The spectrogram that filters are made for. */
interface MelFilterOptions {
  readonly mels: number;
  /** Number of samples in a window. */
  readonly fftSamples: number;
  readonly sampleRateHz: number;
}

/** Slaney's mel scale is linear up to here and logarithmic above. */
const KNEE_HZ = 1000;
const HZ_PER_MEL = 200 / 3;
const KNEE_MEL = KNEE_HZ / HZ_PER_MEL;
const LOG_STEP = Math.log(6.4) / 27;

/** The periodic Hann window, `[size]`. */
export function makeHannWindow(size: number): Float64Array {
  return Float64Array.from(
    { length: size },
    (_, i) => 0.5 - 0.5 * Math.cos(2 * Math.PI * i / size),
  );
}

/**
 * Filters from 0 Hz to half the sample rate, each with an area of 1 over the frequency in Hz. They are Whisper's and
 * librosa's (`filters.mel`), on the mel scale of Slaney's Auditory Toolbox (1998). The first and the last bin of the
 * spectrum are in none of them.
 */
export function makeMelFilters({ mels, fftSamples, sampleRateHz }: MelFilterOptions): MelFilter[] {
  const top = toMel(sampleRateHz / 2);
  const edges = Array.from({ length: mels + 2 }, (_, i) => fromMel(top * i / (mels + 1)));
  const hzPerBin = sampleRateHz / fftSamples;
  return Array.from({ length: mels }, (_, mel) => {
    const [low, centre, high] = edges.slice(mel, mel + 3) as [number, number, number];
    const firstBin = Math.floor(low / hzPerBin) + 1;
    const lastBin = Math.min(Math.ceil(high / hzPerBin), fftSamples / 2) - 1;
    const weights = Float64Array.from({ length: Math.max(0, lastBin - firstBin + 1) }, (_, i) => {
      const hz = (firstBin + i) * hzPerBin;
      const height = Math.min((hz - low) / (centre - low), (high - hz) / (high - centre));
      return height * 2 / (high - low);
    });
    return { firstBin, weights };
  });
}

function toMel(hz: number): number {
  return hz < KNEE_HZ ? hz / HZ_PER_MEL : KNEE_MEL + Math.log(hz / KNEE_HZ) / LOG_STEP;
}

function fromMel(mel: number): number {
  return mel < KNEE_MEL ? mel * HZ_PER_MEL : KNEE_HZ * Math.exp((mel - KNEE_MEL) * LOG_STEP);
}
