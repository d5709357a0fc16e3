/**
 * Where to cut a long recording for models that take one piece at a time and give no times: in the quietest tenth of a
 * second near a piece's end. Pure.
 *
 * @module
 */

/** A model's limits. */
export interface QuietCutOptions {
  readonly sampleRateHz: number;
  /** Most samples of a piece. */
  readonly maxSamples: number;
}

/** How far back from the longest piece's end to look. */
const SEARCH_SECONDS = 5;
const WINDOW_SECONDS = 0.1;

/**
 * The length of the next piece.
 *
 * @param samples what comes next, as much as a piece may be at most, all of it if less is left.
 */
export function findQuietCut(
  samples: Float32Array,
  { sampleRateHz, maxSamples }: QuietCutOptions,
): number {
  if (samples.length < maxSamples) return samples.length;
  const window = Math.round(WINDOW_SECONDS * sampleRateHz);
  const searched = Math.min(SEARCH_SECONDS * sampleRateHz, maxSamples / 2);
  let [quietest, least] = [maxSamples, Infinity];
  // The last among equals, so that pieces are long.
  for (let start = maxSamples - window; start >= maxSamples - searched; start -= window) {
    let energy = 0;
    for (let i = start; i < start + window; i++) energy += samples[i]! ** 2;
    if (energy < least) [quietest, least] = [start + Math.floor(window / 2), energy];
  }
  return quietest;
}
