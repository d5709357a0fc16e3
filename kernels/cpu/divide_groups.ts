/**
 * Divides the products of a matrix among threads.
 *
 * @module
 */

/** Sizes of parts, in groups of outputs that lie side by side. */
interface PartSizes {
  /**
   * The usual size: large enough to stream several pages of weights, small enough that no thread waits long for
   * another.
   */
  readonly usual: number;
  /** Smaller parts are not worth the overhead. */
  readonly least: number;
  /** Most parts of a large matrix, before their number is rounded to a multiple of the threads. */
  readonly maxParts: number;
}

/** The number of groups per part. If there are enough groups, each thread gets the same number of parts. */
export function divideGroups(
  numGroups: number,
  numThreads: number,
  { usual, least, maxParts }: PartSizes,
): number {
  const parts = Math.min(maxParts, Math.ceil(numGroups / usual));
  const even = numThreads * Math.ceil(parts / numThreads);
  const most = Math.max(parts, Math.ceil(numGroups / least));
  return Math.ceil(numGroups / Math.min(even, most));
}
