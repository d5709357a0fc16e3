/**
 * Keeps the pool of KV blocks as large as its sequences need, on the device and in the scheduler.
 *
 * @module
 */
import type { Decoder, SampledToken } from "../decoder/decoder.ts";
import { log } from "../base/log.ts";
import { PoolSize } from "./pool_size.ts";
import type { RefusedSequence, Scheduler } from "./scheduler.ts";

/** What it is made of. */
interface KvPoolParts {
  readonly decoder: Pick<Decoder<SampledToken>, "limits" | "resizeCache">;
  readonly scheduler: Scheduler;
}

export class KvPool {
  readonly #parts: KvPoolParts;
  readonly #size: PoolSize;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: KvPoolParts) {
    this.#parts = parts;
    this.#size = new PoolSize(parts.decoder.limits);
  }

  /** Call it before a request is queued: memory that the device refused may be free by now. */
  updateLimit(): void {
    this.#parts.scheduler.limitPool(this.#size.mostAt(performance.now()));
  }

  /**
   * Enlarges the pool if the next step needs that.
   *
   * @returns the sequences that wait for more than the device gives, which the caller ends.
   */
  async fit(): Promise<readonly RefusedSequence[]> {
    const { scheduler } = this.#parts;
    const demand = scheduler.demand();
    const sizes = this.#size.sizesFor(demand, performance.now());
    for (const size of sizes) {
      // What was given may be less than what is missing.
      if (await this.#resize(size)) return await this.fit();
    }
    if (sizes.length > 0) this.#noteRefusal();
    const { numBlocks } = this.#size;
    const isShort = demand.numMissing > 0 && this.#size.mostAt(performance.now()) === numBlocks;
    return isShort ? scheduler.limitPool(numBlocks) : [];
  }

  #noteRefusal(): void {
    this.#size.refuse(performance.now());
    log.warn("there is no more memory for keys and values: requests share what there is", {
      tokens: this.#size.numBlocks * this.#parts.decoder.limits.blockSize,
    });
  }

  /** Call it after a step. */
  observe(): void {
    this.#size.observe(this.#parts.scheduler.stats().numUsedBlocks, performance.now());
  }

  /**
   * Gives memory back after a while in which it was not needed.
   *
   * @param exclusively runs it while no step runs; not at all if the engine is busy, which calls this again.
   */
  shrinkLater(exclusively: (shrink: () => Promise<void>) => void): void {
    this.stop();
    const inMs = this.#size.shrinksIn(performance.now());
    if (inMs === undefined) return;
    this.#timer = setTimeout(() => exclusively(() => this.#shrink()), inMs);
    this.#timer.unref();
  }

  /** Never shrinks it. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  async #shrink(): Promise<void> {
    try {
      await this.#resize(this.#size.restingSize);
    } catch (error) {
      log.error("the memory for keys and values could not be made smaller", { error });
    }
  }

  async #resize(numBlocks: number): Promise<boolean> {
    const { decoder, scheduler } = this.#parts;
    if (!await decoder.resizeCache?.(numBlocks)) return false;
    scheduler.resize(numBlocks);
    this.#size.set(numBlocks, performance.now());
    const tokens = numBlocks * decoder.limits.blockSize;
    log.debug("the memory for keys and values has another size", { tokens });
    return true;
  }
}
