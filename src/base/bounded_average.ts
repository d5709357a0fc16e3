/**
 * Averages of times.
 *
 * @module
 */

/** Weight of the newest time. */
const NEWEST = 0.3;

/**
 * A running average that one slow step, on a busy machine, changes little.
 *
 * @param outlier a time that is more than so many times the average counts as if it were just that.
 */
export function boundedAverage(
  before: number | undefined,
  newest: number,
  outlier: number,
): number {
  if (before === undefined) return newest;
  return NEWEST * Math.min(newest, outlier * before) + (1 - NEWEST) * before;
}
