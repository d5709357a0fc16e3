/**
 * Admission control: a semaphore with equal permits, a budget that is given out in parts, and the precedence of short
 * work over long work. Waiting small work overtakes waiting large work, but not indefinitely.
 *
 * @module
 */
import { BusyThread, untilAborted } from "../../base/timing.ts";

/** Maximum number of times that an entry is overtaken by later, smaller ones. */
const MAX_PASSED_OVER = 32;

interface Waiter<Pass> {
  /** Amount of work, in any unit. */
  readonly size: number;
  /** Ends the wait with the result `pass`. */
  readonly enter: (pass: Pass) => void;
  /** Number of times that smaller entries overtook this one since an overdue entry was last admitted. */
  numPassedOver: number;
}

/**
 * A queue in which small entries overtake large ones, but not indefinitely: an entry that was overtaken
 * {@linkcode MAX_PASSED_OVER} times is admitted next. Then small entries may overtake again.
 */
class SizeQueue<Pass> {
  /** Waiting entries, the oldest first. */
  readonly #waiting: Waiter<Pass>[] = [];

  get length(): number {
    return this.#waiting.length;
  }

  /**
   * Adds an entry, and waits until {@linkcode takeNext} takes it and `enter` is called.
   *
   * @param onLeave called if the entry leaves the queue because the signal is aborted.
   * @throws the signal's reason when it is aborted first.
   */
  async wait(size: number, signal: AbortSignal, onLeave: () => void = () => {}): Promise<Pass> {
    const { promise, resolve, reject } = Promise.withResolvers<Pass>();
    const waiter = { size, enter: resolve, numPassedOver: 0 };
    const leave = () => {
      const at = this.#waiting.indexOf(waiter);
      if (at >= 0) this.#waiting.splice(at, 1);
      reject(signal.reason);
      onLeave();
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#waiting.push(waiter);
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /**
   * Takes the smallest entry that can begin, or the oldest one among equals. Overdue entries come first.
   *
   * @param options.keepsRoom whether to take no entry while an overdue one cannot begin yet.
   */
  takeNext(
    isAble: (waiter: Waiter<Pass>) => boolean,
    { keepsRoom = false }: { readonly keepsRoom?: boolean } = {},
  ): Waiter<Pass> | undefined {
    const overdue = this.#waiting.find((each) =>
      each.numPassedOver >= MAX_PASSED_OVER && (keepsRoom || isAble(each))
    );
    if (overdue !== undefined && !isAble(overdue)) return undefined;
    const next = overdue ?? this.#waiting.filter(isAble)
      .reduce<Waiter<Pass> | undefined>(
        (least, each) => least === undefined || each.size < least.size ? each : least,
        undefined,
      );
    if (next === undefined) return undefined;
    const at = this.#waiting.indexOf(next);
    this.#waiting.splice(at, 1);
    this.#waiting.forEach((each, index) => {
      if (next === overdue) each.numPassedOver = 0;
      else if (index < at) each.numPassedOver++;
    });
    return next;
  }
}

/**
 * Limits how many tasks run at a time. Each permit has a number from 0 to `size` - 1. Small work overtakes waiting
 * large work. Of several permits, half (rounded down) are never given to work above `maxSmall`.
 */
export class Semaphore {
  readonly #size: number;
  readonly #maxSmall: number;
  readonly #free: number[];
  readonly #waiting = new SizeQueue<number>();

  constructor(size: number, { maxSmall = Infinity }: { readonly maxSmall?: number } = {}) {
    this.#size = size;
    this.#maxSmall = maxSmall;
    this.#free = Array.from({ length: size }, (_, permit) => permit);
  }

  get numAcquired(): number {
    return this.#size - this.#free.length;
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /**
   * Waits for a permit, which the caller must release.
   *
   * @throws the signal's reason when it is aborted first.
   */
  async acquire(signal: AbortSignal, { work = 0 }: {
    /** Amount of work in any unit. The least work goes first, and the oldest among equals. */
    readonly work?: number | undefined;
  } = {}): Promise<number> {
    signal.throwIfAborted();
    if (this.#mayTake(work)) return this.#free.pop()!;
    return await this.#waiting.wait(work, signal);
  }

  /** Returns a permit, and gives free permits to waiting callers. */
  release(permit: number): void {
    this.#free.push(permit);
    const isAble = ({ size }: { readonly size: number }) => this.#mayTake(size);
    for (let next; (next = this.#waiting.takeNext(isAble)) !== undefined;) {
      next.enter(this.#free.pop()!);
    }
  }

  #mayTake(work: number): boolean {
    const isLarge = work > this.#maxSmall;
    return this.#free.length > (isLarge ? Math.floor(this.#size / 2) : 0);
  }
}

/** A budget that is given out in parts. Small requests overtake large ones, but not indefinitely. */
export class Budget {
  readonly #total: number;
  #left: number;
  #numTaken = 0;
  readonly #waiting = new SizeQueue<void>();

  constructor(total: number) {
    this.#total = total;
    this.#left = total;
  }

  /** Number of parts in use. */
  get numTaken(): number {
    return this.#numTaken;
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /**
   * Waits for a part of the budget. A part larger than the total counts as the total.
   *
   * @returns a function to call once, which gives the part back.
   * @throws the signal's reason when it is aborted first.
   */
  async take(wanted: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const size = Math.min(wanted, this.#total);
    const entered = this.#waiting.wait(size, signal, () => this.#admit());
    this.#admit();
    await entered;
    return () => this.#giveBack(size);
  }

  #giveBack(amount: number): void {
    this.#left += amount;
    this.#numTaken--;
    this.#admit();
  }

  /** Admits waiting entries. While an overdue entry does not fit, the budget is saved for it. */
  #admit(): void {
    const isAble = ({ size }: { readonly size: number }) => size <= this.#left;
    for (let next; (next = this.#waiting.takeNext(isAble, { keepsRoom: true })) !== undefined;) {
      this.#left -= next.size;
      this.#numTaken++;
      next.enter();
    }
  }
}

/**
 * A long recording waits for short ones at most this many times the duration of its last slice of work, times the
 * number of long recordings that wait.
 */
const MAX_WAIT_RATIO = 8;

/** Lets short recordings go before long ones. */
export class ShortFirst {
  readonly #now: () => number;
  #numShort = 0;
  readonly #waiting = new Set<() => void>();

  /** @param now the time in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Marks the beginning of a short transcription.
   *
   * @returns a function to call once, at the end of the transcription.
   */
  begin(): () => void {
    this.#numShort++;
    return () => {
      if (--this.#numShort > 0) return;
      for (const resume of this.#waiting) resume();
    };
  }

  /**
   * Makes the yield function of a long recording.
   *
   * @returns a function to call before each slice of work, which may be a few milliseconds or one window. It lets other
   * work of the thread run, then waits until no short recording is being transcribed, but no longer than
   * {@linkcode MAX_WAIT_RATIO} allows.
   */
  makeYieldForLong(signal: AbortSignal): () => Promise<void> {
    const thread = new BusyThread();
    let sinceMs = this.#now();
    return async () => {
      const tookMs = this.#now() - sinceMs;
      await thread.yield();
      await this.#untilNoneShort(MAX_WAIT_RATIO * tookMs, signal);
      signal.throwIfAborted();
      sinceMs = this.#now();
    };
  }

  async #untilNoneShort(maxMs: number, signal: AbortSignal): Promise<void> {
    if (this.#numShort === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    const timer = setTimeout(resolve, maxMs * this.#waiting.size);
    try {
      await untilAborted(promise, signal);
    } finally {
      this.#waiting.delete(resolve);
      clearTimeout(timer);
    }
  }
}
