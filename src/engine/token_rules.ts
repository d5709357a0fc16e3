import type { SampleRow } from "../../kernels/sample_row.ts";

/** Constrains the next token of one sequence. */
export interface TokenRules {
  /**
   * The allowed next tokens; all if both are absent. Read when the token is sampled, valid until {@linkcode accept}.
   */
  readonly mask?: SampleRow["mask"];
  readonly rule?: SampleRow["rule"];
  /** Whether no token may follow. */
  readonly isFinished?: boolean;
  /** Takes the token that was chosen. */
  accept?(tokenId: number): void;
}
