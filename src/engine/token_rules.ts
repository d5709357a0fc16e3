import type { SampleRow } from "../../kernels/sample_row.ts";

/** Says of one sequence, token by token, which tokens may come next. */
export interface TokenRules {
  /** What the next token may be; all if both are absent. Asked when it is chosen, good until {@linkcode accept}. */
  readonly mask?: SampleRow["mask"];
  readonly rule?: SampleRow["rule"];
  /** Whether no token may follow. */
  readonly isFinished?: boolean;
  /** Takes the token that was chosen. */
  accept?(tokenId: number): void;
}
