/**
 * `completions`: scripts with which a shell completes commands, flags, their values and model names, made from the
 * tables that parse the command line.
 *
 * @module
 */
import { HUB_ID_OF_ALIAS, listBuiltIn } from "../hub/catalogue.ts";
import {
  type CompletedCommand,
  type CompletedFlag,
  type Values,
  writeBash,
  writeFish,
  writePowerShell,
  writeZsh,
} from "./completion_scripts.ts";
import { type Command, type Flag, flagName, UsageError } from "./command.ts";
import { COMMON_FLAGS } from "./shared_flags.ts";
import { printLine } from "./print.ts";

const SCRIPTS = new Map([
  ["bash", writeBash],
  ["zsh", writeZsh],
  ["fish", writeFish],
  ["powershell", writePowerShell],
]);
const SHELLS = [...SCRIPTS.keys()];

/** Prints the script for a shell. @returns 0. @throws {UsageError} for an unknown shell. */
export async function completions(shell: string, commands: readonly Command[]): Promise<number> {
  const write = SCRIPTS.get(shell);
  if (write === undefined) {
    throw new UsageError(`completions wants one of ${SHELLS.join(", ")}, got "${shell}".`);
  }
  const models = [...await listBuiltIn(), ...HUB_ID_OF_ALIAS.keys()];
  printLine(write(commands.map((command) => describeCommand(command, models))));
  return 0;
}

function describeCommand(
  { name, summary, flags, operands }: Command,
  models: readonly string[],
): CompletedCommand {
  return {
    name,
    summary,
    flags: Object.entries({ ...flags, ...COMMON_FLAGS }).map(([key, flag]) =>
      describeFlag(key, flag, models)
    ),
    operands: operands.length === 0 ? "none" : completeValues(operands[0]!, models),
  };
}

function describeFlag(
  key: string,
  { short, help, placeholder, fallback }: Flag<unknown>,
  models: readonly string[],
): CompletedFlag {
  return {
    // A switch that is on by default is only useful as `--no-…`.
    long: `--${fallback === true ? "no-" : ""}${flagName(key)}`,
    short: short && `-${short}`,
    help: help.replace(/[.:;] .*/s, "").replace(/\.$/, ""),
    values: placeholder === undefined ? undefined : completeValues(placeholder, models),
  };
}

/** What completes a placeholder: `<model>`, `<file>`, or words separated by bars. */
function completeValues(placeholder: string, models: readonly string[]): Values {
  if (/file|folder/.test(placeholder)) return "files";
  if (placeholder === "<model>") return models;
  if (placeholder === "<shell>") return SHELLS;
  return placeholder.startsWith("<") || placeholder.startsWith("[")
    ? "none"
    : placeholder.split("|");
}
