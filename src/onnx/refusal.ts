/**
 * How the cut says no.
 *
 * @module
 */

/** Thrown where a graph holds something the cut cannot express; its message is one sentence for people. */
export class Refusal extends Error {
  override readonly name = "Refusal";
}
