/**
 * Runs a benchmark on several devices, each in its own process: leftovers of one device do not affect the next, and
 * transformers.js can only use the device on which its first session was opened.
 *
 * @module
 */
import { findAdapter } from "../../src/gpu/device.ts";

/** Where a benchmark runs. */
export type DeviceName = "cpu" | "webgpu";

/**
 * Whether to run the part of a benchmark with this name: every part if the command line has no words, otherwise the
 * parts whose names contain one of them.
 */
export type IsWanted = (name: string) => boolean;

/**
 * Runs the program at `file` again for each available device, with the device's name before the current arguments. A
 * process whose first argument is such a name runs `bench` instead, and its other arguments are the words of
 * {@linkcode IsWanted}. Ends the process, with exit code 1 if a device's process failed.
 */
export async function benchEachDevice(
  file: string,
  bench: (device: DeviceName, isWanted: IsWanted) => Promise<void>,
): Promise<never> {
  const [first, ...rest] = Deno.args;
  if (first === "cpu" || first === "webgpu") {
    const words = rest.filter((word) => !word.startsWith("-"));
    await bench(first, (name) => words.length === 0 || words.some((word) => name.includes(word)));
    Deno.exit(0);
  }
  const hasAdapter = await findAdapter({ allowFallback: true }) !== undefined;
  let exitCode = 0;
  for (const device of hasAdapter ? ["cpu", "webgpu"] : ["cpu"]) {
    const args = ["run", "-A", "--no-check", file, device, ...Deno.args];
    const { code } = await new Deno.Command(Deno.execPath(), {
      args,
      stdout: "inherit",
      stderr: "inherit",
    }).output();
    exitCode ||= code;
  }
  Deno.exit(exitCode);
}
