/**
 * Refusals of the cut.
 *
 * @module
 */

/** Thrown where a graph holds something the cut cannot express; its message is one sentence for users. */
export class Refusal extends Error {
  override readonly name = "Refusal";
}

/** A cut, or in one sentence why the graph is not cut. */
export type CutResult<Cut> = { readonly cut: Cut } | { readonly refused: string };

export function tryCut<Cut>(cut: () => Cut): CutResult<Cut> {
  try {
    return { cut: cut() };
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    throw error;
  }
}
