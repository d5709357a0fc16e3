/**
 * The signals that ask a server to stop.
 *
 * @module
 */

// Windows has no SIGTERM; Ctrl-Break is its second stop signal.
const STOP_SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT", "SIGBREAK"]
  : ["SIGINT", "SIGTERM"];

/** The exit code that shells report for a process ended by a signal. */
const EXIT_CODES: Partial<Record<Deno.Signal, number>> = {
  SIGINT: 130,
  SIGTERM: 143,
  SIGBREAK: 149,
};

/** Calls `listener` at each signal to stop, with the exit code of a process that the signal ends at once. */
export function onStopSignal(listener: (signal: Deno.Signal, exitCode: number) => void): void {
  for (const signal of STOP_SIGNALS) {
    Deno.addSignalListener(signal, () => listener(signal, EXIT_CODES[signal] ?? 1));
  }
}
