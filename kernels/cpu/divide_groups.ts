/**
 * How the products of a matrix are divided among threads.
 *
 * @module
 */

/** Sizes of parts, in groups of outputs that lie side by side. */
interface PartSizes {
  /** Large enough for streams of weights of some pages, small enough that no thread waits long for another. */
  readonly usual: number;
  /** Smaller parts are not worth taking. */
  readonly least: number;
  /** Most parts of a large matrix, before their number is rounded to a multiple of the threads. */
  readonly maxParts: number;
}

/** Groups of a part: as many parts for each thread, where there are enough groups. */
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
