/**
 * What a process has used, as Linux tells it.
 *
 * @module
 */

/** CPU time of all threads since the start, and the most memory that was resident at a time. */
export interface ProcessUsage {
  readonly cpuSeconds: number;
  readonly peakMiB: number;
}

/** Of `sysconf(_SC_CLK_TCK)`, which is the same on every Linux that Deno runs on. */
const TICKS_PER_SECOND = 100;

/** Reads a running process. */
export function readUsage(pid: number): ProcessUsage {
  const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
  // The name, in brackets, may hold spaces; user and system time are the 14th and 15th field.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const cpuSeconds = (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  const [, kib = NaN] = /^VmHWM:\s+(\d+)/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ?? [];
  return { cpuSeconds, peakMiB: Number(kib) / 1024 };
}
