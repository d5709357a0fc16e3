/**
 * Runs the command that the command line names, and turns its outcome into an exit code.
 *
 * @module
 */
import { isSystemError, StartupError, startupMessage } from "../base/errors.ts";
import { SETTING_FLAGS } from "./shared_flags.ts";
import { VERSION } from "../base/version.ts";
import { type Command, defineCommand, UsageError } from "./command.ts";
import { formatHelp } from "./help.ts";
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
    printProblem(startupMessage(error, SETTING_FLAGS));
    return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED;
  }
}

/** Whether the message is enough, without a stack: for expected errors, and errors of the operating system. */
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
    summary: "Show how a model's graphs, or one .onnx file, are split for paged attention.",
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
