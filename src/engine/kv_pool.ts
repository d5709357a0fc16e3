/**
 * Resizes the pools of KV blocks, on the device and in the scheduler, to what the sequences need.
 *
 * @module
 */
import type { Decoder, SampledToken } from "../decoder/decoder.ts";
import { log } from "../base/log.ts";
import { PoolSize } from "./length_limits.ts";
import type { RefusedSequence, Scheduler } from "./scheduler.ts";

interface KvPoolParts {
  readonly decoder: Pick<Decoder<SampledToken>, "limits" | "resizeCache">;
  readonly scheduler: Scheduler;
}

export class KvPool {
  readonly #parts: KvPoolParts;
  /** The size of each pool: the main one, then those of layers with a window. */
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
      {
        ...this.#describe(size.numBlocks, pool),
      },
    );
  }

  /** Call it after a step. */
  observe(): void {
    const stats = this.#parts.scheduler.stats();
    for (const [pool, { numUsedBlocks }] of [stats, ...stats.windows].entries()) {
      this.#sizes[pool]!.observe(numUsedBlocks, performance.now());
    }
  }

  /**
   * Gives memory back once it has not been needed for a while.
   *
   * @param exclusively runs the function that it is given while no step runs. A busy engine does not run it, and calls
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
