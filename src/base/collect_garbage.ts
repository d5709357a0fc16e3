/**
 * Returns memory that a thread no longer uses to the system. V8 collects garbage only while it allocates, so an idle
 * thread would keep the hundreds of megabytes that large requests left behind.
 *
 * @module
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { trimAllArenas, trimOwnArena } from "./libc.ts";

const LOOK_AFTER_MS = 3_000;
/** Less garbage than this is not worth a collection, which stops the thread for tens of milliseconds. */
const MIN_GARBAGE_BYTES = 8 * 2 ** 20;
/**
 * Checks after which another collection is due, because memory in use at the last one may be garbage by now. The number
 * doubles after each collection that found little.
 */
const MIN_LOOKS = 4;
const MAX_LOOKS = 16;
/** How often memory is returned that was freed without a collection. */
const TRIM_EVERY_MS = 20_000;

/** Decides when a thread's garbage is worth a collection. Pure. */
export class CollectionSchedule {
  /** Bytes in use after the last collection. */
  #keptBytes = 0;
  #numLooks = 0;
  #dueAfterLooks = MIN_LOOKS;
  #isOver = false;

  /** Whether a check finds that a collection is due. */
  isDue(usedBytes: number): boolean {
    this.#numLooks++;
    this.#isOver = this.#numLooks >= this.#dueAfterLooks;
    return usedBytes - this.#keptBytes >= MIN_GARBAGE_BYTES ||
      this.#isOver && usedBytes >= MIN_GARBAGE_BYTES;
  }

  /** Records the result of a collection. */
  observe(usedBefore: number, usedAfter: number): void {
    this.#keptBytes = usedAfter;
    this.#numLooks = 0;
    const foundLittle = usedBefore - usedAfter < MIN_GARBAGE_BYTES;
    this.#isOver = foundLittle && this.#dueAfterLooks === MAX_LOOKS;
    this.#dueAfterLooks = foundLittle ? Math.min(2 * this.#dueAfterLooks, MAX_LOOKS) : MIN_LOOKS;
  }

  /** Whether no further check is needed until there is more work. */
  get isOver(): boolean {
    return this.#isOver;
  }
}

const schedule = new CollectionSchedule();
let timer: ReturnType<typeof setTimeout> | undefined;
let collect: (() => void) | undefined;
/** Array buffers are freed by another thread, some time after the collection that found them. */
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
  }, LOOK_AFTER_MS);
  timer.unref();
}

/** Collects this thread's garbage at once, before hundreds of megabytes are allocated again. */
export function collectGarbageNow(): void {
  (collect ??= openCollector())();
}

function collectGarbage(): void {
  const before = usedBytes();
  const isDue = schedule.isDue(before);
  if (isDue || mayHaveFreed || performance.now() - trimmedAtMs > TRIM_EVERY_MS) {
    void trimAllArenas(isDue ? collect ??= openCollector() : undefined);
    trimmedAtMs = performance.now();
  } else {
    trimOwnArena();
  }
  if (isDue) schedule.observe(before, usedBytes());
  mayHaveFreed = isDue;
}

/** V8 has no other interface to request a collection. */
function openCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc");
}

/** Bytes of this thread's objects and array buffers. */
function usedBytes(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}
