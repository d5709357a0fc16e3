/**
 * Rotary position embeddings of heads by themselves, for attentions that take rotated ones. On the CPU alone: on a GPU
 * `kv_write` rotates.
 *
 * @module
 */
import type { RowLayout } from "../attention/kv_write.ts";
import type { Elem } from "../../src/gpu/kernel.ts";

/**
 * What specialises the kernel. With `x` a head of the token at position `p`, and `x'` its element that is rotated with `x[i]`:
 *
 * `out[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`, minus for the first of the two; elements from `size` on stay.
 */
export interface RotateParams {
  readonly elem: Elem;
  /** Heads of a row, one after the other. */
  readonly heads: number;
  readonly headSize: number;
  /** Elements of a head that are rotated: the first. */
  readonly size: number;
  /** Whether neighbours are rotated together, rather than element `i` with `i + size / 2`. */
  readonly isInterleaved: boolean;
  /** Which of a token's positions rotates each pair, where it has several. */
  readonly sections?: readonly number[] | undefined;
  readonly x: RowLayout;
  /** Rows of the tables, `[positions, size / 2]`; larger positions read the last row. */
  readonly numPositions: number;
}
