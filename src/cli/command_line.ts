/**
 * Runs the command that the command line names, and turns its outcome into an exit code. Writes `--help` and the tables
 * of docs/flags.md from the tables of flags that parse the command line.
 *
 * @module
 */
import { formatRefusal, isSystemError, StartupError } from "../base/errors.ts";
import { COMMON_FLAGS, SETTING_FLAGS } from "./shared_flags.ts";
import { PROGRAM, VERSION } from "../base/config.ts";
import {
  type Command,
  defineCommand,
  type Flag,
  type FlagTable,
  toEnvironmentName,
  toFlagName,
  UsageError,
} from "./command.ts";
import { chooseCommand, parseCall } from "./parse.ts";
import { printLine, printProblem } from "./print.ts";
import { spawnAhead } from "../server/session/spawn_worker.ts";
import {
  PULL_FLAGS,
  REPORT_FLAGS,
  RM_FLAGS,
  ROUTER_FLAGS,
  RUN_FLAGS,
  SERVE_FLAGS,
} from "./flags.ts";

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
    printProblem(formatRefusal(error, SETTING_FLAGS));
    return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED;
  }
}

/** Whether to print only the message, without a stack: for expected errors, and for errors of the operating system. */
function isExpected(error: unknown): error is Error {
  return error instanceof UsageError || error instanceof StartupError || isSystemError(error);
}

/**
 * All commands, the default one first. To add a command, write a function and an entry here. Functions are imported
 * when called, so that `--help` does not load the server.
 */
export const COMMANDS: readonly [Command, ...Command[]] = [
  defineCommand({
    name: "serve",
    summary: "Serve a model over HTTP (the default command).",
    operands: [],
    flags: SERVE_FLAGS,
    run: async ({ flags }) => {
      const spawnWorker = spawnAhead();
      return await (await import("./serve.ts")).serve(flags, spawnWorker);
    },
  }),
  defineCommand({
    name: "router",
    summary: "Serve several models behind one address, each loaded when it is requested.",
    operands: [],
    flags: ROUTER_FLAGS,
    run: async ({ flags }) => await (await import("./router.ts")).router(flags),
  }),
  defineCommand({
    name: "run",
    summary: "Use a model without a server: once, or in a chat at a terminal.",
    operands: ["<model>", "[prompt]"],
    flags: RUN_FLAGS,
    run: async ({ flags, operands: [model = "", prompt] }) => {
      return await (await import("./run/run.ts")).run(model, { ...flags, prompt });
    },
  }),
  defineCommand({
    name: "pull",
    summary: "Download a model, or update it, without serving it.",
    operands: ["<model>"],
    flags: PULL_FLAGS,
    run: async ({ flags, operands: [model = ""] }) => {
      return await (await import("./models.ts")).pull(model, flags);
    },
  }),
  defineCommand({
    name: "list",
    alias: "ls",
    summary: "List the models on this machine and in the catalogue (also ls).",
    operands: [],
    flags: REPORT_FLAGS,
    run: async ({ flags }) => await (await import("./models.ts")).list(flags),
  }),
  defineCommand({
    name: "rm",
    summary: "Remove a downloaded model.",
    operands: ["<model>"],
    flags: RM_FLAGS,
    run: async ({ flags, operands: [model = ""] }) => {
      return await (await import("./models.ts")).rm(model, flags);
    },
  }),
  defineCommand({
    name: "ps",
    summary: "List the running servers.",
    operands: [],
    flags: REPORT_FLAGS,
    run: async ({ flags }) => await (await import("./servers.ts")).ps(flags),
  }),
  defineCommand({
    name: "stop",
    summary: "Stop the server on a port, or the only server.",
    operands: ["[port]"],
    flags: {},
    run: async ({ operands: [port] }) => await (await import("./servers.ts")).stop(port),
  }),
  defineCommand({
    name: "doctor",
    summary: "Check devices, cache and hub; the exit code says whether models can be served.",
    operands: [],
    flags: REPORT_FLAGS,
    run: async ({ flags }) => await (await import("./doctor.ts")).doctor(flags),
  }),
  defineCommand({
    name: "inspect",
    summary: "Show how a model's graphs, or one .onnx file, are cut for paged attention.",
    operands: ["<model>"],
    flags: REPORT_FLAGS,
    run: async ({ flags, operands: [model = ""] }) => {
      const { inspect } = await import("./inspect.ts");
      const { resolveModel } = await import("../hub/resolve.ts");
      const path = model.endsWith(".onnx") && !/^https?:/.test(model)
        ? model
        : (await resolveModel(model)).folder;
      return await inspect(path, flags);
    },
  }),
  defineCommand({
    name: "completions",
    summary: "Print a script that completes commands, flags and models in a shell.",
    operands: ["<shell>"],
    flags: {},
    run: async ({ operands: [shell = ""] }) => {
      return await (await import("./completions.ts")).completions(shell, COMMANDS);
    },
  }),
];

const LINE_WIDTH = 80;
const INDENT = " ".repeat(6);
const NOTES = [
  "Each flag can also be set by the environment variable in its brackets. The command line has " +
  "precedence. A switch is turned off with --no-<name>, or with the value 0 in the environment.",
  "Exit codes: 0 success, 1 failure, 2 invalid command line.",
];
const REPEATS = { never: [], again: ["repeatable"], commas: ["repeatable, or with commas"] };

/** Writes the whole `--help` of a command. The default command's help also lists the other commands. */
export function formatHelp(command: Command, commands: readonly Command[]): string {
  const isDefault = command === commands[0];
  const name = isDefault ? "" : ` ${command.name}`;
  const usage = [`${PROGRAM}${name}`, ...command.operands, "[flags]"].join(" ");
  const width = Math.max(...commands.map((other) => other.name.length));
  const list = commands.flatMap((other) =>
    wrap(other.summary.split(" "), `  ${other.name.padEnd(width)}  `)
  );
  return [
    command.summary,
    "",
    `Usage: ${usage}`,
    ...(isDefault ? ["", "Commands:", ...list] : []),
    "",
    "Flags:",
    ...Object.entries({ ...command.flags, ...COMMON_FLAGS }).flatMap(formatFlag),
    "",
    ...NOTES.flatMap((note) => wrap(note.split(" "), "")),
  ].join("\n");
}

/** Writes the table of a command's flags for docs/flags.md. */
export function formatFlagTable(table: FlagTable): string {
  const rows = Object.entries(table).map(([key, flag]) => {
    const name = `\`${formatNames(key, flag).replaceAll("|", "\\|")}\``;
    return `| ${name} | \`${toEnvironmentName(key)}\` | ${formatDefault(flag)} | ${flag.help} |`;
  });
  return ["| flag | environment | default | |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

function formatFlag([key, flag]: [string, Flag<unknown>]): string[] {
  const isCommon = key in COMMON_FLAGS;
  const shown = formatDefault(flag);
  const notes = [
    ...(shown === "" ? [] : [`default ${shown}`]),
    ...REPEATS[flag.repeats],
    ...(isCommon ? [] : [toEnvironmentName(key)]),
  ];
  // A single array element, so that wrapping does not split it.
  const note = notes.length === 0 ? [] : [`[${notes.join("; ")}]`];
  return [`  ${formatNames(key, flag)}`, ...wrap([...flag.help.split(" "), ...note], INDENT)];
}

function formatNames(key: string, flag: Flag<unknown>): string {
  // A switch that is on by default is shown with `[no-]`, since only `--no-…` changes it.
  const name = `--${flag.fallback === true ? "[no-]" : ""}${toFlagName(key)}`;
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  return `${short}${name}${flag.placeholder === undefined ? "" : ` ${flag.placeholder}`}`;
}

function formatDefault({ fallback }: Flag<unknown>): string {
  if (fallback === true) return "on";
  return typeof fallback === "string" || typeof fallback === "number" ? String(fallback) : "";
}

/** Wraps words into lines. The first line begins with `start`, and the others are indented by its length. */
function wrap(words: readonly string[], start: string): string[] {
  const indent = " ".repeat(start.length);
  const lines: string[] = [];
  let line = start;
  let hasWords = false;
  for (const word of words) {
    const joined = hasWords ? `${line} ${word}` : `${line}${word}`;
    if (joined.length > LINE_WIDTH && hasWords) {
      lines.push(line);
      line = `${indent}${word}`;
    } else {
      line = joined;
    }
    hasWords = true;
  }
  return [...lines, line];
}
