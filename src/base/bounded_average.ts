/**
 * Averages of durations.
 *
 * @module
 */

/** Weight of the newest duration. */
const NEWEST = 0.3;

/**
 * Updates an average so that one slow step, on a busy machine, changes it little.
 *
 * @param outlier a duration longer than the average by more than this factor counts as just this much longer.
 */
export function boundedAverage(
  before: number | undefined,
  newest: number,
  outlier: number,
): number {
  if (before === undefined) return newest;
  return NEWEST * Math.min(newest, outlier * before) + (1 - NEWEST) * before;
}
