/**
 * Returns memory that a thread no longer uses to the system. V8 collects garbage only when it allocates: an idle thread
 * would keep the hundreds of megabytes that large requests left behind.
 *
 * @module
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { trimAllArenas, trimOwnArena } from "./trim_heap.ts";

const LOOK_AFTER_MS = 3_000;
/** Less garbage is not worth a collection, which stops the thread for tens of milliseconds. */
const MIN_GARBAGE_BYTES = 8 * 2 ** 20;
/** What was in use counts for less at each look, as it may be free by now: in 48 s a collection is due again. */
const FORGET_BYTES = 2 ** 19;
/** Memory that was freed without garbage is returned as often as this. */
const TRIM_EVERY_MS = 20_000;

let timer: ReturnType<typeof setTimeout> | undefined;
/** In use after the last collection that found little. */
let keptBytes = 0;
let collect: (() => void) | undefined;
/** Another thread frees array buffers some time after the collection that found them. */
let mayHaveFreed = false;
let trimmedAtMs = 0;

/**
 * Call it when a piece of work has ended. Seconds later the thread's garbage is collected, if there may be much.
 *
 * @param isIdle called then; a busy thread is skipped until the next call.
 */
export function collectGarbageLater(isIdle: () => boolean = () => true): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    if (isIdle() && collectGarbage()) collectGarbageLater(isIdle);
  }, LOOK_AFTER_MS);
  timer.unref();
}

/** @returns whether another look may find more. */
function collectGarbage(): boolean {
  const before = usedBytes();
  if (before - keptBytes < MIN_GARBAGE_BYTES) {
    trimOwnArena();
    if (mayHaveFreed || performance.now() - trimmedAtMs > TRIM_EVERY_MS) trimAll();
    mayHaveFreed = false;
    keptBytes -= FORGET_BYTES;
    return before >= MIN_GARBAGE_BYTES;
  }
  collect ??= openCollector();
  collect();
  trimOwnArena();
  trimAll();
  mayHaveFreed = true;
  const after = usedBytes();
  if (before - after < MIN_GARBAGE_BYTES) keptBytes = after;
  return true;
}

function trimAll(): void {
  trimAllArenas();
  trimmedAtMs = performance.now();
}

/** V8 offers no other way to request a collection. */
function openCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc");
}

/** Bytes of this thread's objects and array buffers. */
function usedBytes(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}
