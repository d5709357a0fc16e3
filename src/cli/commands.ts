/**
 * All commands, the default one first. A new command is one file with its function and one entry here.
 * Functions are imported when called, so that `--help` does not load the server.
 *
 * @module
 */
import { resolveModel } from "../hub/resolve.ts";
import { type Command, defineCommand } from "./command.ts";
import { INSPECT_FLAGS, PULL_FLAGS, SERVE_FLAGS } from "./flags.ts";

/** See the module. */
export const COMMANDS: readonly [Command, ...Command[]] = [
  defineCommand({
    name: "serve",
    summary: "Serve a model over HTTP (the default command).",
    operands: [],
    flags: SERVE_FLAGS,
    run: async ({ flags }) => await (await import("./serve.ts")).serve(flags),
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
    name: "inspect",
    summary:
      "Show how a model's graphs, or one .onnx file, are cut for the paged engine, or why not.",
    operands: ["<model>"],
    flags: INSPECT_FLAGS,
    run: async ({ flags, operands: [model = ""] }) => {
      const { inspect } = await import("./inspect.ts");
      const path = model.endsWith(".onnx") ? model : (await resolveModel(model)).folder;
      return await inspect(path, flags);
    },
  }),
];
