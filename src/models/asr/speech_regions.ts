/**
 * Speech regions from the speech probabilities of windows, by Silero's algorithm: speech begins at a threshold and ends
 * when the likelihood stays below a lower one for a while. Pure.
 *
 * @see https://github.com/snakers4/silero-vad
 * @module
 */
import type { SampleRange } from "./recogniser.ts";

/** Silero's own durations are 250 ms, 100 ms and 30 ms; transcription needs more context around the words. */
const DEFAULTS = {
  /** Speech begins at a window of at least this probability. */
  threshold: 0.5,
  /** Speech goes on through windows of at least this probability. */
  endThreshold: 0.35,
  /** Shorter regions are not speech. */
  minSpeechSeconds: 0.1,
  /** Shorter silence is a pause within speech. */
  minSilenceSeconds: 0.5,
  /** Added at both ends, as far as there is room. */
  paddingSeconds: 0.2,
};

export interface SpeechRegionOptions extends Partial<typeof DEFAULTS> {
  readonly sampleRateHz: number;
  /** Samples per probability. */
  readonly windowSamples: number;
  /** Samples of the recording. */
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

/** Finds runs of windows: each begins at a likely window, and ends where long enough silence begins. */
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
      // A window between the two thresholds neither ends silence nor begins it.
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

/** Cuts a region in the longest pause within the maximum length; without one, where speech is least likely. */
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
      // At least half of the region is taken, so that cutting terminates.
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
