/**
 * The process's memory: returns memory that a thread no longer uses to the system, asks for large pages, and ends the
 * process without freeing anything.
 *
 * V8 collects garbage only while it allocates, so an idle thread would keep the hundreds of megabytes that large
 * requests left behind. Functions of the C library are used on Linux. With another C library, or without permission,
 * they do nothing or fall back to Deno's own function.
 *
 * @module
 */
import process from "node:process";

const CHECK_AFTER_MS = 3_000;
/** Less garbage than this is not worth a collection, which stops the thread for tens of milliseconds. */
const MIN_GARBAGE_BYTES = 8 * 2 ** 20;
/**
 * Initial and maximum number of checks after which another collection is due, because memory in use at the last
 * collection may be garbage by now. The number doubles after each collection that found little.
 */
const MIN_CHECKS = 4;
const MAX_CHECKS = 16;
/** How often memory that was freed without a collection is returned. */
const TRIM_EVERY_MS = 20_000;

/** Decides when a thread's garbage is worth a collection. */
export class CollectionSchedule {
  /** Bytes in use after the last collection. */
  #keptBytes = 0;
  #numChecks = 0;
  #dueAfterChecks = MIN_CHECKS;
  #isOver = false;

  /** Whether a check finds that a collection is due. */
  isDue(usedBytes: number): boolean {
    this.#numChecks++;
    this.#isOver = this.#numChecks >= this.#dueAfterChecks;
    return usedBytes - this.#keptBytes >= MIN_GARBAGE_BYTES ||
      this.#isOver && usedBytes >= MIN_GARBAGE_BYTES;
  }

  /** Records the result of a collection. */
  observe(usedBefore: number, usedAfter: number): void {
    this.#keptBytes = usedAfter;
    this.#numChecks = 0;
    const foundLittle = usedBefore - usedAfter < MIN_GARBAGE_BYTES;
    this.#isOver = foundLittle && this.#dueAfterChecks === MAX_CHECKS;
    this.#dueAfterChecks = foundLittle
      ? Math.min(2 * this.#dueAfterChecks, MAX_CHECKS)
      : MIN_CHECKS;
  }

  /** Whether no further check is needed until there is more work. */
  get isOver(): boolean {
    return this.#isOver;
  }
}

const schedule = new CollectionSchedule();
let timer: ReturnType<typeof setTimeout> | undefined;
let collect: (() => void) | undefined;
/** Whether the last check collected garbage: another thread frees the array buffers some time after that. */
let mayHaveFreed = false;
let trimmedAtMs = 0;

/**
 * Collects the thread's garbage some seconds from now, if there may be much. Call it whenever a task has ended.
 *
 * @param isIdle checked at that time; a busy thread is skipped until the next call.
 */
export function collectGarbageLater(isIdle: () => boolean = () => true): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    if (!isIdle()) return;
    collectGarbage();
    if (!schedule.isOver) collectGarbageLater(isIdle);
  }, CHECK_AFTER_MS);
  timer.unref();
}

/** Collects this thread's garbage at once, before hundreds of megabytes are allocated again. */
export function collectGarbageNow(): void {
  (collect ??= openCollector())();
}

function collectGarbage(): void {
  const before = countUsedBytes();
  const isDue = schedule.isDue(before);
  if (isDue || mayHaveFreed || performance.now() - trimmedAtMs > TRIM_EVERY_MS) {
    void trimAllArenas(isDue ? collect ??= openCollector() : undefined);
    trimmedAtMs = performance.now();
  } else {
    trimOwnArena();
  }
  if (isDue) schedule.observe(before, countUsedBytes());
  mayHaveFreed = isDue;
}

/**
 * V8 has no other interface to request a collection. `node:v8` and `node:vm` are loaded on demand, because no command
 * needs them when it starts.
 */
function openCollector(): () => void {
  process.getBuiltinModule("node:v8").setFlagsFromString("--expose-gc");
  return process.getBuiltinModule("node:vm").runInNewContext("gc");
}

/** Bytes of this thread's objects and array buffers. */
function countUsedBytes(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}

// Returns free memory of the native heap to the system, if the C library is glibc. Each thread allocates from its own
// arena. `malloc_trim` does not shorten the free end of an arena, which may be 64 MiB: only a `free` by the thread
// itself does.

// Parameters of `mallopt`, named as in glibc's `malloc.h`.
const M_TRIM_THRESHOLD = -1;
const M_MMAP_THRESHOLD = -3;

/** Blocks of at least this size are mapped. glibc sets this threshold itself after a block of this size was freed. */
const MMAP_THRESHOLD_BYTES = 16 * 2 ** 20;
/** Most free memory that `free` keeps at the end of an arena: twice the other threshold, as in glibc. */
const TRIM_THRESHOLD_BYTES = 2 * MMAP_THRESHOLD_BYTES;
/** glibc checks the end of the arena when a block of this size is freed. */
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
function openGlibc(): Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | null {
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
  openGlibc();
}

/** Shortens the free end of this thread's arena. Takes microseconds. */
export function trimOwnArena(): void {
  setTrimThreshold(PROBE_BYTES);
  freeProbe();
  setTrimThreshold(TRIM_THRESHOLD_BYTES);
}

/**
 * Shortens this thread's arena, then returns the free pages within all arenas. Returning the pages takes milliseconds,
 * and happens on another thread.
 *
 * @param work runs first, such as a garbage collection. Memory that other threads free during it shortens their arenas
 * too; the arenas of V8's garbage collection threads would otherwise keep tens of megabytes.
 */
export async function trimAllArenas(work?: () => void): Promise<void> {
  setTrimThreshold(PROBE_BYTES);
  work?.();
  freeProbe();
  await openGlibc()?.malloc_trim(0n);
  setTrimThreshold(TRIM_THRESHOLD_BYTES);
}

let endTimer: ReturnType<typeof setTimeout> | undefined;

/**
 * Returns the memory of a thread soon after the thread has ended, because nothing else shortens its arena. Call it just
 * before the thread ends.
 */
export function trimEndingThread(): void {
  setTrimThreshold(PROBE_BYTES);
  clearTimeout(endTimer);
  endTimer = setTimeout(() => void trimAllArenas(), END_MS);
  endTimer.unref();
}

function setTrimThreshold(numBytes: number): void {
  openGlibc()?.mallopt(M_TRIM_THRESHOLD, numBytes);
}

/** Makes glibc check the end of this thread's arena. */
function freeProbe(): void {
  const libc = openGlibc();
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
 * libraries while other threads still use them: of the servers that were stopped while ONNX Runtime was loading, one in
 * 75 died of a corrupted heap.
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
