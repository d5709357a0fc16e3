/**
 * Runs what the command line asks for, and turns every ending into an exit code.
 *
 * @module
 */
import { isSystemError, StartupError, startupMessage } from "../base/errors.ts";
import { SETTING_FLAGS } from "./setting_flags.ts";
import { VERSION } from "../base/version.ts";
import { COMMANDS } from "./commands.ts";
import { UsageError } from "./flag.ts";
import { formatHelp } from "./help.ts";
import { chooseCommand, parseCall } from "./parse.ts";
import { printLine, printProblem } from "./print.ts";

const EXIT_DONE = 0;
const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/**
 * Parses `words`, runs the command, and prints why it failed.
 *
 * @returns the exit code: 0 success, 1 failure, 2 an invalid command line.
 */
export async function runCommandLine(words: readonly string[]): Promise<number> {
  try {
    const { command, words: rest } = chooseCommand(COMMANDS, words);
    const call = parseCall(command, rest, Deno.env.toObject());
    if (call !== "help" && call !== "version") return await command.run(call);
    printLine(call === "help" ? formatHelp(command, COMMANDS) : `hearth ${VERSION}`);
    return EXIT_DONE;
  } catch (error) {
    if (!isExpected(error)) throw error;
    printProblem(startupMessage(error, SETTING_FLAGS));
    return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED;
  }
}

/** Whether the message is enough, without a stack: for expected failures, and for what the operating system refuses. */
function isExpected(error: unknown): error is Error {
  return error instanceof UsageError || error instanceof StartupError || isSystemError(error);
}
