/**
 * Hearth: a local inference server on WebGPU. This file is the command line's entry.
 *
 * @module
 */
import { runCommandLine } from "./src/cli/command_line.ts";

if (import.meta.main) Deno.exit(await runCommandLine(Deno.args));
