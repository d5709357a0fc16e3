/**
 * The memory that this process may use, and what is left of it: the machine's, or less if its control group (a
 * container, a systemd unit) or a parent of that group has a limit.
 *
 * @see {@link https://docs.kernel.org/admin-guide/cgroup-v2.html | Control groups}
 * @module
 */

/** Reads the text of a file. */
type ReadText = (path: string) => string;

/** A version of control groups: where Linux shows them, and the files of a group. */
interface GroupVersion {
  /** Folder of the root group. */
  readonly root: string;
  /** Finds the process's own group in `/proc/self/cgroup`. */
  readonly own: RegExp;
  /** Name of the file with the group's limit in bytes. */
  readonly limit: string;
  /** Name of the file with the bytes in use. */
  readonly usage: string;
  /** Finds the bytes of file caches in `memory.stat`, which count as used but can be reclaimed. */
  readonly cache: RegExp;
}

const VERSIONS: readonly GroupVersion[] = [
  {
    root: "/sys/fs/cgroup",
    own: /^0::(\/.*)$/m,
    limit: "memory.max",
    usage: "memory.current",
    cache: /^inactive_file (\d+)$/m,
  },
  {
    root: "/sys/fs/cgroup/memory",
    own: /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(\/.*)$/m,
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: /^total_inactive_file (\d+)$/m,
  },
];

/** A control group with a limit. */
interface LimitedGroup {
  readonly limitBytes: number;
  /** Bytes in use, without file caches that can be reclaimed. */
  readonly usedBytes: number;
}

/** Reads the number of bytes that this process may use; `Infinity` if unknown. */
export function readMemoryLimit(
  read: ReadText = Deno.readTextFileSync,
  machineBytes: number = Deno.systemMemoryInfo().total,
): number {
  const limits = readLimitedGroups(read).map(({ limitBytes }) => limitBytes);
  return Math.min(machineBytes || Infinity, ...limits);
}

/** Reads the number of bytes that this process can still allocate; `undefined` if unknown. */
export function readAvailableBytes(
  read: ReadText = Deno.readTextFileSync,
  { available, free }: Pick<Deno.SystemMemoryInfo, "available" | "free"> = Deno.systemMemoryInfo(),
): number | undefined {
  // On Windows Deno reports the available memory as free, and 0 as available.
  const machineBytes = available || free || Infinity;
  const rests = readLimitedGroups(read).map(({ limitBytes, usedBytes }) => limitBytes - usedBytes);
  const least = Math.min(machineBytes, ...rests);
  return least === Infinity ? undefined : Math.max(0, least);
}

function readLimitedGroups(read: ReadText): LimitedGroup[] {
  const memberships = readOr(read, "/proc/self/cgroup");
  return VERSIONS.flatMap(({ root, own, limit, usage, cache }) =>
    listGroups(own.exec(memberships)?.[1] ?? "/").flatMap((group): LimitedGroup[] => {
      const readFile = (name: string) => readOr(read, `${root}${group}/${name}`);
      const limitBytes = Number.parseInt(readFile(limit));
      // Without a limit, the file holds the word "max".
      if (!(limitBytes > 0)) return [];
      const cacheBytes = Number(cache.exec(readFile("memory.stat"))?.[1] ?? 0);
      return [{ limitBytes, usedBytes: (Number.parseInt(readFile(usage)) || 0) - cacheBytes }];
    })
  );
}

/** Lists a group and all its parents, the root (`""`) first. In a container, the process's own group is the root. */
function listGroups(own: string): string[] {
  const names = own.split("/").filter((name) => name !== "");
  return ["", ...names.map((_, depth) => `/${names.slice(0, depth + 1).join("/")}`)];
}

function readOr(read: ReadText, path: string): string {
  try {
    return read(path);
  } catch {
    return "";
  }
}
