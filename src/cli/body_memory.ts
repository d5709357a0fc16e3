/**
 * How much memory request bodies may take where no flag says so.
 *
 * @module
 */

const MIB = 2 ** 20;
const MOST_BYTES = 1024 * MIB;
/** One whole body has to fit. */
const LEAST_BYTES = 128 * MIB;
const SHARE = 1 / 8;

/** An eighth of the memory that the process may have, from 128 MiB to 1 GiB. @param limitBytes `Infinity` if unknown. */
export function defaultBodyBytes(limitBytes: number): number {
  return Math.min(MOST_BYTES, Math.max(LEAST_BYTES, Math.floor(limitBytes * SHARE)));
}

/**
 * The memory that this process may have: the machine's, or less where its control group (a container, a systemd unit)
 * has a limit.
 *
 * @param read reads a file of the system.
 */
export function readMemoryLimit(
  read: (path: string) => string = Deno.readTextFileSync,
  machineBytes: number = Deno.systemMemoryInfo().total,
): number {
  const own = readOr(read, "/proc/self/cgroup").match(/^0::(\/.*)$/m)?.[1] ?? "/";
  // Every group above has a limit of its own. In a container its own group is the root.
  const names = own.split("/").filter((name) => name !== "");
  const folders = names.map((_, depth) => `/${names.slice(0, depth + 1).join("/")}`);
  const limits = ["", ...folders].map((folder) => `/sys/fs/cgroup${folder}/memory.max`);
  const bytes = [...limits, "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    .map((path) => Number.parseInt(readOr(read, path)))
    // "max" is not a number.
    .filter((limit) => limit > 0);
  return Math.min(machineBytes > 0 ? machineBytes : Infinity, ...bytes);
}

function readOr(read: (path: string) => string, path: string): string {
  try {
    return read(path);
  } catch {
    return "";
  }
}
