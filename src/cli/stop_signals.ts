/**
 * The signals that ask a server to stop.
 *
 * @module
 */

// Windows has no SIGTERM; Ctrl-Break is its second stop signal.
const STOP_SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT", "SIGBREAK"]
  : ["SIGINT", "SIGTERM", ...endsWithTerminal() ? ["SIGHUP" as const] : []];

/** Whether a closed terminal ends the process: `nohup` has it go on, and a listener would undo that. */
function endsWithTerminal(): boolean {
  try {
    const [, ignored = "0"] = /^SigIgn:\s*([\da-f]+)$/m.exec(
      Deno.readTextFileSync("/proc/self/status"),
    ) ?? [];
    return (BigInt(`0x${ignored}`) & 1n) === 0n;
  } catch {
    // Not Linux: nohup leaves no terminal to write to.
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
 * At a signal to stop, calls `leave` and then lets the signal end the process, so that a script that waits for it ends
 * too. A second signal ends it at once.
 */
export function leaveOnStopSignal(leave: () => Promise<void>): void {
  keepIgnoringHangups();
  for (const signal of STOP_SIGNALS) {
    const listener = async () => {
      Deno.removeSignalListener(signal, listener);
      await leave();
      // On Windows a process cannot send itself one.
      if (Deno.build.os === "windows") Deno.exit(EXIT_CODES[signal]);
      Deno.kill(Deno.pid, signal);
    };
    Deno.addSignalListener(signal, listener);
  }
}

/**
 * Has the process go on when its terminal closes, if it was started so: Deno, where anything listens to a signal, would
 * end at a hangup that `nohup` has it ignore.
 */
function keepIgnoringHangups(): void {
  if (Deno.build.os !== "windows" && !STOP_SIGNALS.includes("SIGHUP")) {
    Deno.addSignalListener("SIGHUP", () => {});
  }
}

/**
 * Calls `listener` at each signal to stop, with the exit code of a process that the signal ends at once.
 *
 * @param options.onHangup called at SIGHUP in its place, in a process without a terminal whose closing it could mean.
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
