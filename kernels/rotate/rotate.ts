/**
 * Rotary position embeddings of heads, for attention operators that take rotated heads. Only on the CPU: on a GPU,
 * `kv_write` rotates.
 *
 * @module
 */
import type { RowLayout } from "../attention/kv_write.ts";
import type { Elem } from "../../src/gpu/kernel.ts";

/**
 * The parameters of the kernel. Let `x` be a head of the token at position `p`, and `x'[i]` the element that is rotated
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
