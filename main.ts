/**
 * Hearth: a local inference server on WebGPU. This file is the command line's entry.
 *
 * @module
 */
import { runCommandLine } from "./src/cli/command_line.ts";
import { stderrQueue } from "./src/base/log.ts";

/** For the last lines of the log, where somebody reads them. */
const LAST_LINES_MS = 200;

if (import.meta.main) {
  const exitCode = await runCommandLine(Deno.args);
  await stderrQueue.flush(LAST_LINES_MS);
  Deno.exit(exitCode);
}
