/**
 * The machine's available memory.
 *
 * @module
 */

/** Available bytes of the machine, or of the container if less; `undefined` if unknown. */
export async function readAvailableBytes(): Promise<number | undefined> {
  const { available } = Deno.systemMemoryInfo();
  const machine = available > 0 ? available : Infinity;
  const least = Math.min(machine, await readContainerBytes());
  return least === Infinity ? undefined : least;
}

/** Linux containers have a limit of their own (cgroup v2); caches count as used, but can be reclaimed. */
async function readContainerBytes(): Promise<number> {
  try {
    const folder = "/sys/fs/cgroup";
    const limit = Number(await Deno.readTextFile(`${folder}/memory.max`));
    const used = Number(await Deno.readTextFile(`${folder}/memory.current`));
    const stat = await Deno.readTextFile(`${folder}/memory.stat`);
    const cache = Number(/^inactive_file (\d+)$/m.exec(stat)?.[1] ?? 0);
    // "max" is not a number.
    return Number.isNaN(limit) ? Infinity : limit - used + cache;
  } catch {
    return Infinity;
  }
}
