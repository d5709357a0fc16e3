/**
 * Reads the resources that a process has used, on Linux.
 *
 * @module
 */

/** CPU time of all threads since the start, and peak resident memory. */
export interface ProcessUsage {
  readonly cpuSeconds: number;
  readonly peakMiB: number;
}

/** The value of `sysconf(_SC_CLK_TCK)` on every Linux that Deno runs on. */
const TICKS_PER_SECOND = 100;

/** Reads the usage of a running process. */
export function readUsage(pid: number): ProcessUsage {
  const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
  // The name, in parentheses, may contain spaces; user and system time are the 14th and 15th fields.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const cpuSeconds = (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  const [, kib = NaN] = /^VmHWM:\s+(\d+)/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ?? [];
  return { cpuSeconds, peakMiB: Number(kib) / 1024 };
}
