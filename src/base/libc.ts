/**
 * Functions of the C library, on Linux: returning memory to the system, large pages, and ending the process at once.
 * With another C library, or without permission, they do nothing or fall back to Deno's own function.
 *
 * @module
 */

// Returns free memory of the native heap to the system, if the C library is glibc. Each thread allocates from its own
// arena. `malloc_trim` does not shorten the free end of an arena, which may be 64 MiB: only a `free` by the thread
// itself does.

/** glibc's names of parameters, from `malloc.h`. */
const M_TRIM_THRESHOLD = -1;
const M_MMAP_THRESHOLD = -3;
/** The threshold that glibc itself sets once a block of this size has been freed. */
const MMAP_THRESHOLD_BYTES = 16 * 2 ** 20;
const TRIM_THRESHOLD_BYTES = 2 * MMAP_THRESHOLD_BYTES;
/** Large enough for its `free` to check the arena's end. */
const PROBE_BYTES = 2 ** 17;
/** Within this time a terminated thread has freed what it held. */
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

/** Makes glibc keep freed blocks of up to 16 MiB for later allocations, until they are trimmed. */
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
 * Shortens this thread's arena, then returns the free pages within all arenas. The latter takes milliseconds, and runs
 * on another thread.
 *
 * @param work runs first, such as a garbage collection. Memory that other threads free during it shortens their arenas
 * too; the arenas of V8's garbage collection threads would otherwise keep tens of megabytes.
 */
export async function trimAllArenas(work?: () => void): Promise<void> {
  setTrimThreshold(PROBE_BYTES);
  work?.();
  freeProbe();
  await glibc()?.malloc_trim(0n);
  setTrimThreshold(TRIM_THRESHOLD_BYTES);
}

let endTimer: ReturnType<typeof setTimeout> | undefined;

/**
 * Returns the memory of a thread soon after it has ended. Call it just before: nothing else shortens the arena of an
 * ended thread.
 */
export function trimEndingThread(): void {
  setTrimThreshold(PROBE_BYTES);
  clearTimeout(endTimer);
  endTimer = setTimeout(() => void trimAllArenas(), END_MS);
  endTimer.unref();
}

function setTrimThreshold(numBytes: number): void {
  glibc()?.mallopt(M_TRIM_THRESHOLD, numBytes);
}

/** Makes glibc check the end of this thread's arena. */
function freeProbe(): void {
  const libc = glibc();
  libc?.free(libc.malloc(BigInt(PROBE_BYTES)));
}

/** `MADV_HUGEPAGE` of Linux. */
const LARGE_PAGES = 14;

/**
 * Asks Linux to back memory with pages of 2 MiB instead of 4 KiB when it is first written to, because processors
 * prefetch only up to the end of a page. On other systems it does nothing.
 *
 * @param memory begins at a page's first byte.
 */
export function adviseLargePages({ buffer }: WebAssembly.Memory): void {
  if (Deno.build.os !== "linux") return;
  try {
    const libc = Deno.dlopen("libc.so.6", {
      madvise: { parameters: ["buffer", "usize", "i32"], result: "i32" },
    });
    const bytes = new Uint8Array(buffer as ArrayBuffer);
    libc.symbols.madvise(bytes, BigInt(bytes.length), LARGE_PAGES);
    libc.close();
  } catch {
    // Another C library, or no permission.
  }
}

/**
 * Ends the process with `exitCode`, using `_exit` of the C library. `Deno.exit` runs the destructors of native
 * libraries while other threads still use them: one in 75 servers that were stopped while ONNX Runtime loaded died of a
 * corrupted heap.
 */
export function endProcess(exitCode: number): never {
  if (Deno.build.os === "linux") {
    try {
      Deno.dlopen("libc.so.6", { _exit: { parameters: ["i32"], result: "void" } })
        .symbols._exit(exitCode);
    } catch {
      // Another C library.
    }
  }
  Deno.exit(exitCode);
}
