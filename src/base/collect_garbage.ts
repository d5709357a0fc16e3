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
/**
 * What was in use at the last collection may be garbage by now: after so many looks another is due. Twice as many follow
 * each that found little.
 */
const MIN_LOOKS = 4;
const MAX_LOOKS = 16;
/** Memory that was freed without garbage is returned as often as this. */
const TRIM_EVERY_MS = 20_000;

/** When a thread's garbage is worth a collection. Pure. */
export class CollectionSchedule {
  /** Bytes in use after the last collection. */
  #keptBytes = 0;
  #numLooks = 0;
  #dueAfterLooks = MIN_LOOKS;
  #isOver = false;

  /** Whether a look finds a collection due. */
  isDue(usedBytes: number): boolean {
    this.#numLooks++;
    this.#isOver = this.#numLooks >= this.#dueAfterLooks;
    return usedBytes - this.#keptBytes >= MIN_GARBAGE_BYTES ||
      this.#isOver && usedBytes >= MIN_GARBAGE_BYTES;
  }

  /** Learns from a collection. */
  observe(usedBefore: number, usedAfter: number): void {
    this.#keptBytes = usedAfter;
    this.#numLooks = 0;
    const foundLittle = usedBefore - usedAfter < MIN_GARBAGE_BYTES;
    this.#isOver = foundLittle && this.#dueAfterLooks === MAX_LOOKS;
    this.#dueAfterLooks = foundLittle ? Math.min(2 * this.#dueAfterLooks, MAX_LOOKS) : MIN_LOOKS;
  }

  /** Whether no look needs to follow until there was more work. */
  get isOver(): boolean {
    return this.#isOver;
  }
}

const schedule = new CollectionSchedule();
let timer: ReturnType<typeof setTimeout> | undefined;
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
    if (!isIdle()) return;
    collectGarbage();
    if (!schedule.isOver) collectGarbageLater(isIdle);
  }, LOOK_AFTER_MS);
  timer.unref();
}

/** Collects this thread's garbage at once: for hundreds of megabytes that are about to be taken again. */
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
