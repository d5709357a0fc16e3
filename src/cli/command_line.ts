/**
 * Runs what the command line asks for, and turns every ending into an exit code.
 *
 * @module
 */
import { StartupError } from "../errors.ts";
import { VERSION } from "../version.ts";
import { COMMANDS } from "./commands.ts";
import { UsageError } from "./flag.ts";
import { formatHelp } from "./help.ts";
import { chooseCommand, parseCall } from "./parse.ts";
import { printLine, printProblem } from "./print.ts";

const EXIT_DONE = 0;
const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/**
 * Parses `words`, runs the command, and prints what a person is to know of its failure.
 *
 * @returns the exit code: 0 done, 1 it could not be done, 2 the command line was not understood.
 */
export async function runCommandLine(words: readonly string[]): Promise<number> {
  try {
    const { command, words: rest } = chooseCommand(COMMANDS, words);
    const call = parseCall(command, rest, Deno.env.toObject());
    if (call !== "help" && call !== "version") return await command.run(call);
    printLine(call === "help" ? formatHelp(command, COMMANDS) : `hearth ${VERSION}`);
    return EXIT_DONE;
  } catch (error) {
    if (!isTold(error)) throw error;
    printProblem(error.message);
    return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED;
  }
}

/** Whether a message says it all. What the system refuses is no fault of the program's either. */
function isTold(error: unknown): error is Error {
  if (error instanceof UsageError || error instanceof StartupError) return true;
  return error instanceof Error && /\(os error \d+\)/.test(error.message);
}
