/**
 * A command as shells know it.
 *
 * @module
 */

/** What may follow: words, a file, or nothing that could be told. */
export type Values = readonly string[] | "files" | "none";

/** A flag as shells know it. */
export interface CompletedFlag {
  readonly long: string;
  readonly short: string | undefined;
  readonly help: string;
  /** `undefined` for a switch. */
  readonly values: Values | undefined;
}

/** A command as shells know it. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly CompletedFlag[];
  readonly operands: Values;
}
