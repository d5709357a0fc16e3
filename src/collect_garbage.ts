/**
 * Memory that a thread has done with goes back to the system. V8 collects garbage when there is something to allocate:
 * a thread that has nothing more to do keeps the hundreds of megabytes that large requests left behind.
 *
 * @module
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const LOOK_AFTER_MS = 3_000;
/** Less is not worth a collection, which stops the thread for some tens of milliseconds. */
const MIN_GARBAGE_BYTES = 16 * 2 ** 20;

let timer: ReturnType<typeof setTimeout> | undefined;
/** In use after the last collection that found little. */
let keptBytes = 0;
let collect: (() => void) | undefined;

/**
 * To be called when a piece of work has ended. Some seconds later the thread's garbage is collected, if there may be
 * much of it.
 *
 * @param isIdle asked then; a thread at work is left alone until it calls again.
 */
export function collectGarbageLater(isIdle: () => boolean = () => true): void {
  timer ??= setTimeout(() => {
    timer = undefined;
    // What was still in use may have been let go of since.
    if (isIdle() && collectGarbage()) collectGarbageLater(isIdle);
  }, LOOK_AFTER_MS);
  Deno.unrefTimer(Number(timer));
}

/** @returns whether there was much. */
function collectGarbage(): boolean {
  const before = usedBytes();
  if (before - keptBytes < MIN_GARBAGE_BYTES) return false;
  collect ??= openCollector();
  collect();
  const after = usedBytes();
  const foundMuch = before - after >= MIN_GARBAGE_BYTES;
  if (foundMuch) trimHeap();
  else keptBytes = after;
  return foundMuch;
}

/** There is no other way to ask V8 for it. */
function openCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc");
}

/** Gives free memory between what native code holds back to the system, where that is glibc's. */
function trimHeap(): void {
  if (Deno.build.os !== "linux") return;
  try {
    const libc = Deno.dlopen("libc.so.6", {
      malloc_trim: { parameters: ["usize"], result: "i32" },
    });
    libc.symbols.malloc_trim(0n);
    libc.close();
  } catch {
    // Another C library, or no permission.
  }
}

/** Of this thread: its objects, and the array buffers that they hold. */
function usedBytes(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}
