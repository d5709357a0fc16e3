/**
 * How many cores the CPU has.
 *
 * @module
 */

/** Physical cores: threads that share a core count as one, if known. */
export async function countCores(): Promise<number> {
  const numThreads = navigator.hardwareConcurrency;
  if (Deno.build.os !== "linux") return numThreads;
  const siblings = await Promise.all(
    Array.from({ length: numThreads }, (_, thread) => readSiblings(thread)),
  );
  return siblings.includes(undefined) ? numThreads : new Set(siblings).size;
}

/** The threads that share a core with this one: `0,4`. */
async function readSiblings(thread: number): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(
      `/sys/devices/system/cpu/cpu${thread}/topology/thread_siblings_list`,
    );
  } catch {
    return undefined;
  }
}
