/**
 * The signals that ask a server to stop.
 *
 * @module
 */

// Windows has no SIGTERM; Ctrl-Break is its second stop signal.
const STOP_SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT", "SIGBREAK"]
  : ["SIGINT", "SIGTERM", ...endsWithTerminal() ? ["SIGHUP" as const] : []];

/**
 * Whether closing the terminal ends the process. Under `nohup` it does not, and then there must be no listener for
 * SIGHUP that ends it.
 */
function endsWithTerminal(): boolean {
  try {
    const [, ignored = "0"] = /^SigIgn:\s*([\da-f]+)$/m.exec(
      Deno.readTextFileSync("/proc/self/status"),
    ) ?? [];
    return (BigInt(`0x${ignored}`) & 1n) === 0n;
  } catch {
    // On systems other than Linux: under nohup, no output goes to the terminal.
    return Deno.stdout.isTerminal() || Deno.stderr.isTerminal();
  }
}

/** The exit code that shells report for a process ended by a signal. */
const EXIT_CODES: Partial<Record<Deno.Signal, number>> = {
  SIGHUP: 129,
  SIGINT: 130,
  SIGTERM: 143,
  SIGBREAK: 149,
};

/**
 * At a signal to stop, calls `leave` and then lets the signal end the process, so that a shell script that waits for
 * the process ends too. A second signal ends the process at once.
 */
export function leaveOnStopSignal(leave: () => Promise<void>): void {
  keepIgnoringHangups();
  for (const signal of STOP_SIGNALS) {
    const listener = async () => {
      Deno.removeSignalListener(signal, listener);
      await leave();
      // On Windows a process cannot send itself a signal.
      if (Deno.build.os === "windows") Deno.exit(EXIT_CODES[signal]);
      Deno.kill(Deno.pid, signal);
    };
    Deno.addSignalListener(signal, listener);
  }
}

/**
 * Keeps the process running when its terminal closes, if it was started with `nohup`. Deno would otherwise end at a
 * hangup as soon as anything listens to a signal.
 */
function keepIgnoringHangups(): void {
  if (Deno.build.os !== "windows" && !STOP_SIGNALS.includes("SIGHUP")) {
    Deno.addSignalListener("SIGHUP", () => {});
  }
}

/**
 * Calls `listener` at each signal that asks the process to stop, with the exit code that belongs to the signal.
 *
 * @param options.onHangup called instead of `listener` at SIGHUP in a process without a terminal, where the signal
 * cannot mean that the terminal was closed.
 */
export function onStopSignal(
  listener: (signal: Deno.Signal, exitCode: number) => void,
  { onHangup }: { readonly onHangup?: (() => void) | undefined } = {},
): void {
  const hasTerminal = [Deno.stdin, Deno.stdout, Deno.stderr].some((stream) => stream.isTerminal());
  const takesHangups = onHangup !== undefined && !hasTerminal && Deno.build.os !== "windows";
  if (takesHangups) Deno.addSignalListener("SIGHUP", onHangup);
  else keepIgnoringHangups();
  for (const signal of STOP_SIGNALS) {
    if (takesHangups && signal === "SIGHUP") continue;
    Deno.addSignalListener(signal, () => listener(signal, EXIT_CODES[signal] ?? 1));
  }
}
