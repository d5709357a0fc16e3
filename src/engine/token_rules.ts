import type { SampleRow } from "../../kernels/sample/sample_row.ts";

/** Constrains the next token of one sequence. */
export interface TokenRules {
  /**
   * A mask of the allowed next tokens; all are allowed if absent. Read when the token is sampled, and valid until
   * {@linkcode accept}.
   */
  readonly mask?: SampleRow["mask"];
  readonly rule?: SampleRow["rule"];
  /** Whether no further token may follow. */
  readonly isFinished?: boolean;
  /** Records the token that was chosen. */
  accept?(tokenId: number): void;
}

/** Makes a mask of these tokens: bit `t % 32` of word `t >> 5` is set for token `t`. */
export function toMask(tokens: Iterable<number>, vocabSize: number): Uint32Array<ArrayBuffer> {
  const mask = new Uint32Array(Math.ceil(vocabSize / 32));
  for (const token of tokens) mask[token >>> 5]! |= 1 << (token & 31);
  return mask;
}
