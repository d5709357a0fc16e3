/**
 * Parses the command line and the environment into a command's flags and operands.
 *
 * @module
 */
import { parseArgs } from "node:util";
import type { Environment } from "../base/config.ts";
import { findNearNames } from "../base/near_names.ts";
import {
  type Call,
  type Command,
  type Flag,
  type FlagTable,
  type FlagValues,
  toEnvironmentName,
  toFlagName,
  UsageError,
} from "./command.ts";
import { COMMON_FLAGS } from "./shared_flags.ts";
import { log } from "../base/log.ts";

/** The chosen command, and the words that follow it. */
interface CommandWords {
  readonly command: Command;
  readonly words: readonly string[];
}

/** A call of a command, or the request for its help or version. */
type ParsedCall = Call<FlagTable> | "help" | "version";

interface Occurrence {
  readonly key: string;
  /** The value as text. A switch without a value has `1`, or `0` if it is turned off. */
  readonly value: string;
  readonly source: string;
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

/**
 * Finds the command that the first word names, and returns it with the other words. Without a name, the first of
 * `commands` is chosen. `help run` means `run --help`.
 *
 * @throws {UsageError} when the first word is neither a flag nor a command.
 */
export function chooseCommand(
  commands: readonly [Command, ...Command[]],
  words: readonly string[],
): CommandWords {
  const [first, ...rest] = words;
  if (first === undefined || first.startsWith("-")) return { command: commands[0], words };
  if (first === "help") {
    return { command: chooseCommand(commands, rest).command, words: ["--help"] };
  }
  const command = commands.find(({ name, alias }) => name === first || alias === first);
  if (command !== undefined) return { command, words: rest };
  const names = commands.map(({ name }) => name);
  const near = findNearNames(first, names, 1).map((name) => ` Did you mean "${name}"?`).join("");
  throw new UsageError(
    `There is no command "${first}".${near} Commands: ${
      names.join(", ")
    }; a model is named with -m.`,
  );
}

/**
 * Parses a command's flags and operands. The command line has precedence over environment variables, and those over
 * defaults. A variable that holds the address of a service is ignored.
 *
 * @throws {UsageError} when a word is unknown or missing, or a value is out of range.
 */
export function parseCall(
  command: Command,
  words: readonly string[],
  environment: Environment,
): ParsedCall {
  const table: FlagTable = { ...command.flags, ...COMMON_FLAGS };
  const { tokens } = parseArgs({
    args: [...words],
    options: Object.fromEntries(
      Object.entries(table).map(([key, flag]) => [toFlagName(key), describeOption(flag)]),
    ),
    allowPositionals: true,
    // The tokens are used because parseArgs' own errors neither suggest similar names nor say what is expected.
    strict: false,
    tokens: true,
  });
  const options = tokens.filter((token) => token.kind === "option");
  if (options.some(({ name }) => name === toFlagName("help"))) return "help";
  if (options.some(({ name }) => name === toFlagName("version"))) return "version";

  const given = options.map((token) => readOption(token, table, command));
  const operands = tokens.flatMap((token) => token.kind === "positional" ? [token.value] : []);
  checkOperands(command, operands);
  return { flags: collectValues(command.flags, given, environment), operands };
}

function describeOption(flag: Flag<unknown>): { type: "string" | "boolean"; short?: string } {
  const type = flag.placeholder === undefined ? "boolean" : "string";
  return flag.short === undefined ? { type } : { type, short: flag.short };
}

function readOption(token: OptionToken, table: FlagTable, command: Command): Occurrence {
  const { name, rawName: source, value } = token;
  const found = findFlag(table, name);
  if (found !== undefined) {
    const { key, flag } = found;
    if (flag.placeholder === undefined) return { key, value: value ?? "1", source };
    return { key, value: requireValue(token, key, flag.placeholder), source };
  }
  const denied = name.startsWith("no-") ? findFlag(table, name.slice("no-".length)) : undefined;
  if (denied === undefined || denied.flag.placeholder !== undefined) {
    throw explainUnknownFlag(source, table, command);
  }
  if (value !== undefined) throw new UsageError(`${source} takes no value, got "${value}".`);
  return { key: denied.key, value: "0", source };
}

function requireValue(token: OptionToken, key: string, placeholder: string): string {
  const { rawName, value, inlineValue } = token;
  if (value === undefined) throw new UsageError(`${rawName} wants a value: ${placeholder}.`);
  if (inlineValue !== true && /^-./.test(value)) {
    throw new UsageError(
      `${rawName} wants a value (${placeholder}), got "${value}"; if that is the value, write ` +
        `--${toFlagName(key)}=${value}.`,
    );
  }
  return value;
}

function findFlag(
  table: FlagTable,
  name: string,
): { key: string; flag: Flag<unknown> } | undefined {
  return Object.entries(table)
    .map(([key, flag]) => ({ key, flag }))
    .find(({ key }) => toFlagName(key) === name);
}

function explainUnknownFlag(source: string, table: FlagTable, command: Command): UsageError {
  const near = findNearNames(source, Object.keys(table).map((key) => `--${toFlagName(key)}`), 1);
  const hint = near.length > 0 ? `Did you mean ${near[0]}?` : `See ${command.name} --help.`;
  return new UsageError(`There is no flag ${source}. ${hint}`);
}

function checkOperands(command: Command, operands: readonly string[]): void {
  const { name, operands: wanted } = command;
  const missing = wanted.find((each, index) => each.startsWith("<") && !operands[index]?.trim());
  if (missing !== undefined) throw new UsageError(`${name} wants ${missing}. See ${name} --help.`);
  const extra = operands[wanted.length];
  if (extra === undefined) return;
  const hint = "model" in command.flags
    ? `; to serve the model "${extra}", write -m ${extra}`
    : "input" in command.flags
    ? `; put a prompt of several words in quotes, and give further inputs with -i`
    : "";
  throw new UsageError(`${name} takes no "${extra}"${hint}. See ${name} --help.`);
}

function collectValues<F extends FlagTable>(
  table: F,
  given: readonly Occurrence[],
  environment: Environment,
): FlagValues<F> {
  const values = Object.entries(table).map(([key, flag]) => {
    const occurrences = given.filter((occurrence) => occurrence.key === key);
    const source = occurrences.at(-1)?.source;
    if (source !== undefined) {
      return [key, flag.parse(occurrences.map(({ value }) => value), source)];
    }
    const name = toEnvironmentName(key);
    const value = environment[name];
    const isGiven = value !== undefined && !isServiceLink(value);
    return [key, isGiven ? flag.parse([value], name) : flag.fallback];
  });
  return Object.fromEntries(values);
}

/**
 * Whether a value is the address of a service: a Kubernetes Service called hearth sets `HEARTH_PORT=tcp://10.0.0.1:80`.
 */
function isServiceLink(value: string): boolean {
  return /^(tcp|udp|sctp):\/\//.test(value);
}

/** Logs each variable that would set a flag but is ignored because it holds the address of a service. */
export function warnOfServiceLinks(flags: FlagTable, environment: Environment): void {
  for (const variable of Object.keys(flags).map(toEnvironmentName)) {
    const value = environment[variable];
    if (value === undefined || !isServiceLink(value)) continue;
    log.warn("a variable is ignored: it is the address of a service, not a setting", {
      variable,
      value,
      remedy: "set enableServiceLinks: false, or rename the service",
    });
  }
}
