/**
 * Refusals: why a graph cannot be cut or compiled.
 *
 * @module
 */

/** Thrown when a cut or a program cannot express a part of a graph. Its message is one sentence for users. */
export class Refusal extends Error {
  override readonly name = "Refusal";
}

/** A cut, or one sentence that says why the graph cannot be cut. */
export type CutResult<Cut> = { readonly cut: Cut } | { readonly refused: string };

/** Calls `cut`, and returns the refusal if it throws one. */
export function tryCut<Cut>(cut: () => Cut): CutResult<Cut> {
  try {
    return { cut: cut() };
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    throw error;
  }
}
