/**
 * The machine's free memory, and how a decoder divides it.
 *
 * @module
 */
const MIB = 2 ** 20;
export const SMALLEST_KV_CACHE_MIB = 64;
/** Memory for the first prefixes, and that weights may be laid out a second time in what is left. */
const CACHE_BEFORE_COPIES_BYTES = 2 ** 30;
/** The share of the free memory that keys and values may take by default, and that growth may take at once. */
const CACHE_SHARE = 0.6;
const GROWTH_SHARE = 0.8;

/** How the machine's memory is divided, besides weights and activations. */
interface MemoryShares {
  /** Bytes for a second copy of weights. */
  readonly spareBytes: number;
  /** Bytes for keys and values, where no setting says how much. */
  readonly cacheBytes: number;
}

/** Divides what weights and activations leave. */
export function shareMemory(
  needs: {
    readonly weightsBytes: number;
    readonly activationBytes: number;
    readonly stateBytes?: number;
  },
  availableBytes = Infinity,
): MemoryShares {
  const { weightsBytes, activationBytes, stateBytes = 0 } = needs;
  const left = Math.max(0, availableBytes - weightsBytes - activationBytes - stateBytes);
  const spareBytes = Math.max(0, left - CACHE_BEFORE_COPIES_BYTES);
  const copied = spareBytes >= needs.weightsBytes ? needs.weightsBytes : 0;
  const cacheBytes = Math.max(CACHE_SHARE * (left - copied), SMALLEST_KV_CACHE_MIB * MIB);
  return { spareBytes, cacheBytes };
}

/** Whether keys and values may take so many more bytes of the machine's memory now. */
export async function hasRoomFor(bytes: number): Promise<boolean> {
  const availableBytes = await readAvailableBytes();
  return availableBytes === undefined || bytes <= GROWTH_SHARE * availableBytes;
}

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
