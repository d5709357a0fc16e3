/**
 * All commands, the default one first. A new command is one file with its function and one entry here.
 * Functions are imported when called, so that `--help` does not load the server.
 *
 * @module
 */
import { resolveModel } from "../hub/resolve.ts";
import { spawnAhead } from "../server/session/spawn_worker.ts";
import { type Command, defineCommand } from "./command.ts";
import {
  PULL_FLAGS,
  REPORT_FLAGS,
  RM_FLAGS,
  ROUTER_FLAGS,
  RUN_FLAGS,
  SERVE_FLAGS,
} from "./flags.ts";

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
    summary: "Serve several models behind one address, each loaded when it is asked for.",
    operands: [],
    flags: ROUTER_FLAGS,
    run: async ({ flags }) => await (await import("./router.ts")).router(flags),
  }),
  defineCommand({
    name: "run",
    summary: "Use a model without a server: once, or at a terminal in a chat.",
    operands: ["<model>", "[prompt]"],
    flags: RUN_FLAGS,
    run: async ({ flags, operands: [model = "", prompt] }) => {
      return await (await import("./run/run.ts")).run(model, { ...flags, prompt });
    },
  }),
  defineCommand({
    name: "pull",
    summary: "Download a model, or what is newer of it, without serving it.",
    operands: ["<model>"],
    flags: PULL_FLAGS,
    run: async ({ flags, operands: [model = ""] }) => {
      return await (await import("./pull.ts")).pull(model, flags);
    },
  }),
  defineCommand({
    name: "list",
    alias: "ls",
    summary: "Show the models on this machine and those of the catalogue (also ls).",
    operands: [],
    flags: REPORT_FLAGS,
    run: async ({ flags }) => await (await import("./list.ts")).list(flags),
  }),
  defineCommand({
    name: "rm",
    summary: "Remove a downloaded model.",
    operands: ["<model>"],
    flags: RM_FLAGS,
    run: async ({ flags, operands: [model = ""] }) => {
      return await (await import("./rm.ts")).rm(model, flags);
    },
  }),
  defineCommand({
    name: "ps",
    summary: "Show the servers that run.",
    operands: [],
    flags: REPORT_FLAGS,
    run: async ({ flags }) => await (await import("./ps.ts")).ps(flags),
  }),
  defineCommand({
    name: "stop",
    summary: "Stop the server on a port, or the only one there is.",
    operands: ["[port]"],
    flags: {},
    run: async ({ operands: [port] }) => await (await import("./stop.ts")).stop(port),
  }),
  defineCommand({
    name: "doctor",
    summary: "Check devices, cache and hub; the exit code says whether models can be served.",
    operands: [],
    flags: REPORT_FLAGS,
    run: async ({ flags }) => await (await import("./doctor/doctor.ts")).doctor(flags),
  }),
  defineCommand({
    name: "inspect",
    summary: "Show how a model's graphs, or one .onnx file, are cut for the paged engine.",
    operands: ["<model>"],
    flags: REPORT_FLAGS,
    run: async ({ flags, operands: [model = ""] }) => {
      const { inspect } = await import("./inspect.ts");
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
      return await (await import("./completions/completions.ts")).completions(shell, COMMANDS);
    },
  }),
];
