/**
 * What a command of the command line is.
 *
 * @module
 */
import type { FlagTable, FlagValues } from "./flag.ts";

/** A command as a person called it. */
export interface Call<F extends FlagTable> {
  readonly flags: FlagValues<F>;
  /** At most as many as the command names. */
  readonly operands: readonly string[];
}

/** One command. */
export interface Command<F extends FlagTable = FlagTable> {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** What follows the command, in order, as the help shows it: `<model>` must, `[port]` may. */
  readonly operands: readonly string[];
  readonly flags: F;
  /**
   * Does it.
   *
   * @returns the process's exit code.
   * @throws {StartupError} when it cannot go on, for a reason the person can mend.
   */
  readonly run: (call: Call<F>) => Promise<number>;
}

/** Ties a command's flags to what its `run` receives, and forgets their types for the list of commands. */
export function defineCommand<F extends FlagTable>(command: Command<F>): Command {
  // Safe: the parser fills `flags` from this very command's table.
  return command as unknown as Command;
}
