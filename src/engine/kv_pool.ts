/**
 * Resizes the pools of KV blocks, on the device and in the scheduler, to what the sequences need. Pools grow when
 * sequences need more, and shrink when they have been little used for a while.
 *
 * @module
 */
import type { Decoder, PoolLimits, SampledToken } from "../decoder/decoder.ts";
import { log } from "../base/log.ts";
import { mostBlocks } from "./length_limits.ts";
import type { RefusedSequence, Scheduler } from "./scheduler.ts";
import type { PoolDemand } from "./sequence_queue.ts";

interface KvPoolParts {
  readonly decoder: Pick<Decoder<SampledToken>, "limits" | "resizeCache">;
  readonly scheduler: Scheduler;
}

export class KvPool {
  readonly #parts: KvPoolParts;
  /** The size of each pool: the main pool, then the window pools. */
  readonly #sizes: readonly PoolSize[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: KvPoolParts) {
    this.#parts = parts;
    const { limits } = parts.decoder;
    this.#sizes = [limits, ...limits.windows ?? []].map((each) => new PoolSize(each));
  }

  /**
   * Updates the scheduler's limits, because memory that the device refused may be free by now. Call it before a request
   * is queued.
   */
  updateLimit(): void {
    for (const [pool, size] of this.#sizes.entries()) {
      this.#parts.scheduler.limitPool(size.mostAt(performance.now()), pool);
    }
  }

  /**
   * Enlarges the pools if the next step needs more.
   *
   * @returns the sequences that need more than the device can give; the caller ends them.
   */
  async fit(): Promise<readonly RefusedSequence[]> {
    const { scheduler } = this.#parts;
    const refused: RefusedSequence[] = [];
    for (const [pool, demand] of scheduler.demand().entries()) {
      const own = this.#sizes[pool]!;
      const sizes = own.sizesFor(demand, performance.now());
      for (const size of sizes) {
        // The device may grant less than is missing, so the needs are checked again.
        if (await this.#resize(size, pool)) return await this.fit();
      }
      if (sizes.length > 0) this.#noteRefusal(pool);
      const isShort = demand.numMissing > 0 && own.mostAt(performance.now()) === own.numBlocks;
      if (isShort) refused.push(...scheduler.limitPool(own.numBlocks, pool));
    }
    return refused;
  }

  #noteRefusal(pool: number): void {
    const size = this.#sizes[pool]!;
    size.refuse(performance.now());
    log.warn(
      "the device has no more memory for keys and values: requests share what is allocated",
      this.#describe(size.numBlocks, pool),
    );
  }

  /** Records how many blocks are in use. Call it after a step. */
  observe(): void {
    const stats = this.#parts.scheduler.stats();
    for (const [pool, { numUsedBlocks }] of [stats, ...stats.windows].entries()) {
      this.#sizes[pool]!.observe(numUsedBlocks, performance.now());
    }
  }

  /**
   * Gives memory back once it has not been needed for a while.
   *
   * @param exclusively runs the given function while no step runs. A busy engine ignores the function, and calls
   * `shrinkLater` again when it is idle.
   */
  shrinkLater(exclusively: (shrink: () => Promise<void>) => void): void {
    this.stop();
    const nowMs = performance.now();
    const due = this.#sizes.flatMap((size) => size.shrinksIn(nowMs) ?? []);
    if (due.length === 0) return;
    this.#timer = setTimeout(() => exclusively(() => this.#shrink()), Math.max(...due));
    this.#timer.unref();
  }

  /** Cancels shrinking for good. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  async #shrink(): Promise<void> {
    try {
      for (const [pool, { numBlocks, restingSize }] of this.#sizes.entries()) {
        if (numBlocks > restingSize) await this.#resize(restingSize, pool);
      }
    } catch (error) {
      log.error("the memory for keys and values could not be reduced", { error });
    }
  }

  async #resize(numBlocks: number, pool: number): Promise<boolean> {
    const { decoder, scheduler } = this.#parts;
    if (!await decoder.resizeCache?.(numBlocks, pool)) return false;
    scheduler.resize(numBlocks, pool);
    this.#sizes[pool]!.set(numBlocks, performance.now());
    log.debug("the memory for keys and values was resized", this.#describe(numBlocks, pool));
    return true;
  }

  #describe(numBlocks: number, pool: number): Record<string, number> {
    const { blockSize, windows = [] } = this.#parts.decoder.limits;
    const window = windows[pool - 1]?.window;
    return { tokens: numBlocks * blockSize, ...window !== undefined && { window } };
  }
}

/** Time after which a device that refused memory is asked again. */
const RETRY_MS = 30_000;
/**
 * A pool shrinks after being at most half used for this long. People rarely think longer than this between two
 * messages.
 */
const SHRINK_AFTER_MS = 10 * 60_000;
/** Factors by which a pool grows. If the device refuses one, it is asked for the next smaller one. */
const GROWTH = [2, 1.25, 1.05];

/** The size of one pool of KV blocks. */
export class PoolSize {
  readonly #limits: PoolLimits;
  readonly #most: number;
  #numBlocks: number;
  #refusedAtMs = -Infinity;
  /** Time when more than half of the pool was last in use. */
  #neededAtMs = 0;

  constructor(limits: PoolLimits) {
    this.#limits = limits;
    this.#numBlocks = limits.numBlocks;
    this.#most = mostBlocks(limits);
  }

  get numBlocks(): number {
    return this.#numBlocks;
  }

  /** Maximum number of blocks that the pool can have at present. */
  mostAt(nowMs: number): number {
    return nowMs - this.#refusedAtMs < RETRY_MS ? this.#numBlocks : this.#most;
  }

  /**
   * Sizes to ask the device for, in order, until it grants one; none if the present size is enough. The last one may be
   * smaller than needed.
   */
  sizesFor({ numMissing, numEvicted }: PoolDemand, nowMs: number): number[] {
    const most = this.mostAt(nowMs);
    if (numMissing > 0) return this.#upTo(most, this.#numBlocks + numMissing);
    // Cached prefixes are worth some memory, but not all of it.
    const roomy = Math.min(most, this.restingSize);
    return numEvicted > 0 ? this.#upTo(roomy, this.#numBlocks + 1) : [];
  }

  #upTo(most: number, least: number): number[] {
    const [large, ...smaller] = GROWTH.map((factor) => Math.ceil(factor * this.#numBlocks));
    const sizes = [Math.max(large!, least), ...smaller, least].map((size) => Math.min(size, most));
    return [...new Set(sizes)].filter((size) => size > this.#numBlocks).sort((a, b) => b - a);
  }

  /** Called when the device has granted a size. */
  set(numBlocks: number, nowMs: number): void {
    this.#numBlocks = numBlocks;
    this.#neededAtMs = nowMs;
  }

  /** Called when the device has refused every size. */
  refuse(nowMs: number): void {
    this.#refusedAtMs = nowMs;
  }

  /** Records how many blocks sequences hold. */
  observe(numUsedBlocks: number, nowMs: number): void {
    if (numUsedBlocks > this.#numBlocks / 2) this.#neededAtMs = nowMs;
  }

  /**
   * Milliseconds until the pool should shrink to {@linkcode restingSize} unless it is needed; `undefined` for never.
   */
  shrinksIn(nowMs: number): number | undefined {
    if (this.#numBlocks <= this.restingSize) return undefined;
    return Math.max(0, this.#neededAtMs + SHRINK_AFTER_MS - nowMs);
  }

  /** Size to which an idle pool shrinks. It leaves room for cached prefixes, which later requests may use. */
  get restingSize(): number {
    const { numBlocks, roomyBlocks = numBlocks } = this.#limits;
    return roomyBlocks;
  }
}
