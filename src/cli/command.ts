/**
 * A command of the command line.
 *
 * @module
 */
import type { FlagTable, FlagValues } from "./flag.ts";

/** A parsed call of a command. */
export interface Call<F extends FlagTable> {
  readonly flags: FlagValues<F>;
  /** Operands, at most as many as the command declares. */
  readonly operands: readonly string[];
}

/** One command. */
export interface Command<F extends FlagTable = FlagTable> {
  readonly name: string;
  /** What other programs call it. */
  readonly alias?: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** Operands in order, as the help shows them: `<model>` is required, `[port]` optional. */
  readonly operands: readonly string[];
  readonly flags: F;
  /**
   * Runs the command.
   *
   * @returns the process's exit code.
   * @throws {StartupError} when it cannot go on, for a reason that the user can fix.
   */
  readonly run: (call: Call<F>) => Promise<number>;
}

/** Ties the types of a command's flags to what its `run` receives, and erases them for the list of commands. */
export function defineCommand<F extends FlagTable>(command: Command<F>): Command {
  // Safe: the parser fills `flags` from this very command's table.
  return command as unknown as Command;
}
