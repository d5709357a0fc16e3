/**
 * Refusals of the cut.
 *
 * @module
 */

/** Thrown where a graph holds something the cut cannot express; its message is one sentence for users. */
export class Refusal extends Error {
  override readonly name = "Refusal";
}
