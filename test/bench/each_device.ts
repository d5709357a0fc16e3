/**
 * Benchmarks of several devices, each in a process of its own: what one leaves behind does not burden the next, and
 * transformers.js stays on the device where its first session was opened.
 *
 * @module
 */
import { findAdapter } from "../../src/gpu/device.ts";

/** Where a benchmark runs. */
export type DeviceName = "cpu" | "webgpu";

/** Whether a part of a benchmark is asked for: without words all are, with words those whose name holds one of them. */
export type IsWanted = (name: string) => boolean;

/**
 * Runs the program at `file` again for each device there is, its name the first argument, before those given here; a
 * process that has such an argument runs `bench` instead, its other arguments the words of {@linkcode IsWanted}. Ends
 * the process, with 1 when a device's own failed.
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
