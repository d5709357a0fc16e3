/**
 * Hearth: a local inference server on WebGPU. This file is the command line's entry.
 *
 * @module
 */
import { runCommandLine } from "./src/cli/command_line.ts";
import { endProcess } from "./src/base/memory.ts";
import { stderrQueue } from "./src/base/log.ts";

/** How long the last lines of the log may take to reach their reader. */
const LAST_LINES_MS = 200;

if (import.meta.main) {
  const exitCode = await runCommandLine(Deno.args);
  await stderrQueue.flush(LAST_LINES_MS);
  endProcess(exitCode);
}
