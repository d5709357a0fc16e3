/**
 * The inputs of the `log_mel` kernel and its CPU reference: a model's sizes, parts of recordings, and the window and
 * the filters of a mel spectrogram.
 *
 * @module
 */

/** Sizes of a model's features. */
export interface LogMelSpec {
  /** Number of mel bands: 80, or 128 since Whisper large-v3. */
  readonly mels: number;
  /** Number of samples in a window. */
  readonly fftSamples: number;
  /** Number of samples from one frame to the next. */
  readonly hopSamples: number;
  readonly sampleRateHz: number;
  /** Number of frames in one encoder input. */
  readonly frames: number;
}

/** The part of a recording for one encoder input. */
export interface LogMelRow {
  /**
   * f32, at most {@linkcode countSamplesPerRow} samples, which begin half a window before the centre of the first
   * frame; silence follows them. {@linkcode cutRow} makes them.
   */
  readonly samples: Float32Array;
  /** Index of the recording whose loudest value is used for this row. */
  readonly recording: number;
  /** Number of frames within the recording; later frames become 0. */
  readonly contentFrames: number;
}

/**
 * Reads a model's `preprocessor_config.json`; missing values default to Whisper's.
 *
 * @throws {RangeError} when a value is not a positive integer.
 */
export function readLogMelSpec(config: Readonly<Record<string, unknown>>): LogMelSpec {
  const read = (name: string, fallback: number): number => {
    const value = config[name] ?? fallback;
    if (Number.isInteger(value) && value as number > 0) return value as number;
    throw new RangeError(
      `preprocessor_config.json says ${name} is ${
        JSON.stringify(value)
      }; a positive integer is expected.`,
    );
  };
  const sampleRateHz = read("sampling_rate", 16_000);
  const hopSamples = read("hop_length", 160);
  const windowSamples = read("n_samples", read("chunk_length", 30) * sampleRateHz);
  return {
    mels: read("feature_size", 80),
    fftSamples: read("n_fft", 400),
    hopSamples,
    sampleRateHz,
    frames: read("nb_max_frames", Math.floor(windowSamples / hopSamples)),
  };
}

/** Number of samples that the windows of a row's frames cover. */
export function countSamplesPerRow({ frames, hopSamples, fftSamples }: LogMelSpec): number {
  return (frames - 1) * hopSamples + fftSamples;
}

/** Number of frames whose windows contain some of the first `numSamples` samples of a row. */
export function countFramesReached(spec: LogMelSpec, numSamples: number): number {
  return Math.min(spec.frames, Math.ceil(numSamples / spec.hopSamples));
}

/**
 * Cuts the samples of one row out of a recording, which is reflected at both ends.
 *
 * @param recording f32, at the specification's sample rate.
 * @param options.firstFrame the row's first frame, counted from the recording's beginning.
 * @param options.paddedSamples length of the recording including silence after it; a shorter length cuts it. The
 * recording's own length if absent.
 * @returns samples that share no memory with the recording.
 */
export function cutRow(
  spec: LogMelSpec,
  recording: Float32Array,
  options: { firstFrame?: number; paddedSamples?: number } = {},
): Float32Array {
  const { firstFrame = 0, paddedSamples = recording.length } = options;
  const margin = spec.fftSamples / 2;
  const start = firstFrame * spec.hopSamples - margin;
  const silence = paddedSamples - recording.length;
  // If there is enough silence, its reflection is silent too.
  const soundEnd = silence < margin ? paddedSamples + margin : recording.length;
  const end = Math.max(start, Math.min(start + countSamplesPerRow(spec), soundEnd));
  const row = new Float32Array(end - start);
  row.set(recording.subarray(Math.max(0, start), Math.max(0, end)), Math.max(0, -start));
  for (let i = start; i < Math.min(0, end); i++) row[i - start] = recording[-i] ?? 0;
  for (let i = Math.max(start, paddedSamples); i < end; i++) {
    row[i - start] = recording[2 * (paddedSamples - 1) - i] ?? 0;
  }
  return row;
}

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
export function makeMelFilters(options: MelFilterOptions): MelFilter[] {
  const { mels, sampleRateHz } = options;
  const top = toMel(sampleRateHz / 2);
  const edges = Array.from({ length: mels + 2 }, (_, i) => fromMel(top * i / (mels + 1)));
  return makeTriangles(edges, options).map(({ firstBin, weights }, mel) => ({
    firstBin,
    weights: weights.map((height) => height * 2 / (edges[mel + 2]! - edges[mel]!)),
  }));
}

/** Filters with a height of 1, on the mel scale of HTK: `2595 log10(1 + hz / 700)`. */
export function makeHtkFilters(
  options: MelFilterOptions & { readonly lowestHz: number; readonly highestHz: number },
): MelFilter[] {
  const { mels, lowestHz, highestHz } = options;
  const low = Math.log10(1 + lowestHz / 700);
  const step = (Math.log10(1 + highestHz / 700) - low) / (mels + 1);
  const edges = Array.from({ length: mels + 2 }, (_, i) => 700 * (10 ** (low + step * i) - 1));
  return makeTriangles(edges, options);
}

/** Makes triangles with a height of 1, each over two intervals between edges, sampled at the bins. */
function makeTriangles(
  edges: readonly number[],
  { mels, fftSamples, sampleRateHz }: MelFilterOptions,
): MelFilter[] {
  const hzPerBin = sampleRateHz / fftSamples;
  return Array.from({ length: mels }, (_, mel) => {
    const [low, centre, high] = edges.slice(mel, mel + 3) as [number, number, number];
    const firstBin = Math.floor(low / hzPerBin) + 1;
    const lastBin = Math.min(Math.ceil(high / hzPerBin), fftSamples / 2) - 1;
    const weights = Float64Array.from({ length: Math.max(0, lastBin - firstBin + 1) }, (_, i) => {
      const hz = (firstBin + i) * hzPerBin;
      return Math.min((hz - low) / (centre - low), (high - hz) / (high - centre));
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
