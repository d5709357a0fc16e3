/**
 * Returns free memory of the native heap to the system, where the C library is glibc. Each thread allocates from an
 * arena of its own; `malloc_trim` leaves the free end of each as it is, which may be 64 MiB: only a `free` of the
 * thread itself shortens it.
 *
 * @module
 */

/** glibc's names of parameters, from `malloc.h`. */
const M_TRIM_THRESHOLD = -1;
const M_MMAP_THRESHOLD = -3;
/** The threshold that glibc sets by itself when blocks of this size have been freed. */
const MMAP_THRESHOLD_BYTES = 16 * 2 ** 20;
const TRIM_THRESHOLD_BYTES = 2 * MMAP_THRESHOLD_BYTES;
/** Large enough that its `free` looks at the arena's end. */
const PROBE_BYTES = 2 ** 17;
/** A thread that is ended has freed what it held within this time. */
const END_MS = 1_000;

const SYMBOLS = {
  free: { parameters: ["pointer"], result: "void" },
  malloc: { parameters: ["usize"], result: "pointer" },
  malloc_trim: { parameters: ["usize"], result: "i32", nonblocking: true },
  mallopt: { parameters: ["i32", "i32"], result: "i32" },
} as const;

let opened: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | null | undefined;

/** @returns null with another C library, or without permission. */
function glibc(): Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | null {
  if (opened !== undefined) return opened;
  try {
    opened = Deno.build.os === "linux" ? Deno.dlopen("libc.so.6", SYMBOLS).symbols : null;
  } catch {
    opened = null;
  }
  // Setting one threshold stops glibc from adjusting either.
  opened?.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
  opened?.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES);
  return opened;
}

/** Makes glibc keep freed blocks of up to 16 MiB for the next ones, until they are trimmed. */
export function keepFreedBlocks(): void {
  glibc();
}

/** Shortens the free end of this thread's arena. Takes microseconds. */
export function trimOwnArena(): void {
  setTrimThreshold(PROBE_BYTES);
  freeProbe();
  setTrimThreshold(TRIM_THRESHOLD_BYTES);
}

/**
 * Shortens this thread's arena, and returns whole pages that are free within all arenas: on another thread, since it
 * takes milliseconds.
 *
 * @param work runs before. What other threads free meanwhile shortens their arenas too: those of V8 that help to
 * collect garbage keep tens of megabytes otherwise.
 */
export async function trimAllArenas(work?: () => void): Promise<void> {
  setTrimThreshold(PROBE_BYTES);
  work?.();
  freeProbe();
  await glibc()?.malloc_trim(0n);
  setTrimThreshold(TRIM_THRESHOLD_BYTES);
}

let endTimer: ReturnType<typeof setTimeout> | undefined;

/** Call it before a thread is ended: what it frees then is returned. Nothing shortens its arena afterwards. */
export function trimEndingThread(): void {
  setTrimThreshold(PROBE_BYTES);
  clearTimeout(endTimer);
  endTimer = setTimeout(() => void trimAllArenas(), END_MS);
  endTimer.unref();
}

function setTrimThreshold(numBytes: number): void {
  glibc()?.mallopt(M_TRIM_THRESHOLD, numBytes);
}

/** Makes glibc look at the end of this thread's arena. */
function freeProbe(): void {
  const libc = glibc();
  libc?.free(libc.malloc(BigInt(PROBE_BYTES)));
}
