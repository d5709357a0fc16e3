/**
 * The interface of the CPU's kernels for few rows, and the division of their products among threads.
 *
 * @module
 */
import type { RowLayout } from "../attention/kv_write.ts";
import type { Elem } from "../../src/gpu/kernel.ts";

/** Runs a kernel on the first rows of its tensors. */
export type RowKernel = (numRows: number) => void;

/** Addresses of a kernel's tensors; unused tensors are absent. */
export type Addresses<Name extends string> = Readonly<Partial<Record<Name, number>>>;

/** Reads bytes of a matrix from `offset` on. */
export type ReadBytes = (offset: number, into: Uint8Array) => Promise<void>;

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

/**
 * The parameters of rotary position embeddings of heads, for attention operators that take rotated heads. Only on the
 * CPU: on a GPU, `kv_write` rotates. Let `x` be a head of the token at position `p`, and `x'[i]` the element that is rotated
 * together with `x[i]`:
 *
 * `out[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`, with minus for the first element of each pair; elements from
 * `size` on stay.
 */
export interface RotateParams {
  readonly elem: Elem;
  /** Heads of a row, one after the other. */
  readonly heads: number;
  readonly headSize: number;
  /** Number of leading elements of a head that are rotated. */
  readonly size: number;
  /** Whether neighbouring elements are rotated together, rather than element `i` with `i + size / 2`. */
  readonly isInterleaved: boolean;
  /** How many pairs each of a token's positions rotates, if it has several positions. */
  readonly sections?: readonly number[] | undefined;
  readonly x: RowLayout;
  /** Rows of the tables, `[positions, size / 2]`; larger positions read the last row. */
  readonly numPositions: number;
}
