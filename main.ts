/**
 * Hearth: a local inference server on WebGPU. This file is the command line's entry.
 *
 * @module
 */
import { runCommandLine } from "./src/cli/command_line.ts";
import { endProcess } from "./src/base/memory.ts";
import { stderrQueue } from "./src/base/log.ts";

/** Longest wait for the last lines of the log to be written. */
const LAST_LINES_MS = 200;

if (import.meta.main) {
  const exitCode = await runCommandLine(Deno.args);
  await stderrQueue.flush(LAST_LINES_MS);
  endProcess(exitCode);
}
