/**
 * Finds speech regions from the speech probabilities of windows, by Silero's algorithm: speech begins when the
 * probability reaches a threshold, and ends when it stays below a lower threshold for a while. Pure.
 *
 * @see https://github.com/snakers4/silero-vad
 * @module
 */
import type { SampleRange } from "./recogniser.ts";

/**
 * Default settings. Silero's own durations are 250, 100 and 30 ms. Here single short words count as speech too, and
 * regions are longer, because transcription needs context around the words.
 */
const DEFAULTS = {
  /** Speech begins at a window of at least this probability. */
  threshold: 0.5,
  /** Speech continues through windows of at least this probability. */
  endThreshold: 0.35,
  /** Shorter regions do not count as speech. */
  minSpeechSeconds: 0.1,
  /** Shorter silences are pauses within speech. */
  minSilenceSeconds: 0.5,
  /** Padding at both ends of a region, as far as there is room. */
  paddingSeconds: 0.2,
};

export interface SpeechRegionOptions extends Partial<typeof DEFAULTS> {
  readonly sampleRateHz: number;
  /** Number of samples per probability. */
  readonly windowSamples: number;
  /** Number of samples in the recording. */
  readonly numSamples: number;
  /** Longest region, padding included. */
  readonly maxSpeechSeconds: number;
}

/** A region that is too long is cut at a pause of at least this length. */
const MIN_CUT_SECONDS = 0.098;

/**
 * Finds the speech regions, in order and without overlap.
 *
 * @param likelihoods the speech probability of each window, 0 to 1.
 */
export function findSpeechRegions(
  likelihoods: ArrayLike<number>,
  options: SpeechRegionOptions,
): SampleRange[] {
  const settings = { ...DEFAULTS, ...options };
  const { sampleRateHz, minSpeechSeconds, maxSpeechSeconds, paddingSeconds } = settings;
  const { windowSamples, numSamples } = settings;
  const maxSamples = Math.floor((maxSpeechSeconds - 2 * paddingSeconds) * sampleRateHz);
  const regions = findRuns(likelihoods, settings)
    .map(({ start, end }) => ({
      start: start * windowSamples,
      end: Math.min(end * windowSamples, numSamples),
    }))
    .filter(({ start, end }) => end - start > minSpeechSeconds * sampleRateHz)
    .flatMap((region) => cutLong(region, { likelihoods, maxSamples, ...settings }));
  return pad(regions, Math.round(paddingSeconds * sampleRateHz), numSamples);
}

type Settings = Required<SpeechRegionOptions>;

/** Finds runs of windows. Each begins with a window above the threshold and ends where a long enough silence begins. */
function findRuns(
  likelihoods: ArrayLike<number>,
  { threshold, endThreshold, minSilenceSeconds, sampleRateHz, windowSamples }: Settings,
): SampleRange[] {
  const minSilence = minSilenceSeconds * sampleRateHz / windowSamples;
  const runs: SampleRange[] = [];
  let start: number | undefined;
  let quietFrom: number | undefined;
  for (let window = 0; window < likelihoods.length; window++) {
    const likelihood = likelihoods[window]!;
    if (likelihood >= threshold) {
      start ??= window;
      quietFrom = undefined;
    } else if (start !== undefined && (quietFrom !== undefined || likelihood < endThreshold)) {
      quietFrom ??= window;
      // A window between the two thresholds neither begins nor ends a silence.
      if (likelihood >= endThreshold || window + 1 - quietFrom < minSilence) continue;
      runs.push({ start, end: quietFrom });
      start = quietFrom = undefined;
    }
  }
  if (start !== undefined) runs.push({ start, end: likelihoods.length });
  return runs;
}

interface CutOptions extends Settings {
  readonly likelihoods: ArrayLike<number>;
  readonly maxSamples: number;
}

/** Cuts a long region at the longest pause within the maximum length or, without a pause, where speech is least likely. */
function cutLong(region: SampleRange, options: CutOptions): SampleRange[] {
  const { likelihoods, maxSamples, windowSamples, endThreshold, sampleRateHz } = options;
  const parts: SampleRange[] = [];
  let { start } = region;
  while (region.end - start > maxSamples) {
    const first = start / windowSamples + 1;
    const last = Math.floor((start + maxSamples) / windowSamples);
    let longest: SampleRange = { start: last, end: last };
    let quietest = last;
    let quietFrom: number | undefined;
    for (let window = first; window <= last; window++) {
      const likelihood = likelihoods[window]!;
      // Without a pause, at least half of the maximum length is taken, so that no part becomes very short.
      if (window >= (first + last) / 2 && likelihood < likelihoods[quietest]!) quietest = window;
      if (likelihood >= endThreshold) quietFrom = undefined;
      else {
        quietFrom ??= window;
        if (window + 1 - quietFrom > longest.end - longest.start) {
          longest = { start: quietFrom, end: window + 1 };
        }
      }
    }
    const isPause = (longest.end - longest.start) * windowSamples >= MIN_CUT_SECONDS * sampleRateHz;
    const cut = isPause ? longest : { start: quietest, end: quietest };
    parts.push({ start, end: cut.start * windowSamples });
    start = cut.end * windowSamples;
  }
  return [...parts, { start, end: region.end }];
}

/** Adds padding at both ends; close regions share the gap between them. */
function pad(regions: readonly SampleRange[], padding: number, numSamples: number): SampleRange[] {
  return regions.map(({ start, end }, index) => {
    const before = regions[index - 1]?.end;
    const after = regions[index + 1]?.start;
    const room = (gap: number) => Math.min(padding, Math.floor(gap / 2));
    return {
      start: Math.max(0, start - (before === undefined ? padding : room(start - before))),
      end: Math.min(numSamples, end + (after === undefined ? padding : room(after - end))),
    };
  });
}
