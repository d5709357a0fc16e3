/**
 * Learns from the batches that have run what a batch costs on this device, and from that how large one should be.
 *
 * @module
 */
import type { BatchLimits } from "./text_queue.ts";

/** What a batch should take: it is how long a cancellation or a newcomer waits. */
const TARGET_MS = 60;
/** A batch has at least so many times the tokens whose work a run costs, so that little of its time is lost. */
const MIN_RUN_COSTS = 16;
const MIN_TOKENS = 256;
const MAX_TOKENS = 16_384;
/** Until there is something to learn from. */
const FIRST_TOKENS = 1024;
const FIRST_PADDING = 16;
const MAX_PADDING = 512;
/** What an observation is worth after each that follows: the last twenty count. */
const DECAY = 0.95;
/** The fastest batch of late bounds what a run costs; it is forgotten by this factor with each that follows. */
const FASTEST_GROWTH = 1.01;
/** Sizes must differ by so much, relative to their mean, to tell a batch's constant cost from that of its tokens. */
const MIN_SPREAD = 0.1;

/**
 * Takes the time of a batch to be a constant and a part for each token, fitted by least squares. Noise would have the
 * constant too large at times, and batches grow with it: no batch takes less, so the fastest bounds it.
 */
export class BatchCost {
  readonly #chosenTokens: number | undefined;
  #maxTokens = FIRST_TOKENS;
  #maxPadding = FIRST_PADDING;
  #fastestMs = Infinity;
  /** Sums over the observations, of weight, tokens, milliseconds and their products. */
  #weight = 0;
  #tokens = 0;
  #ms = 0;
  #tokensTokens = 0;
  #tokensMs = 0;

  /** @param maxTokens most tokens of a batch, where somebody has chosen. */
  constructor(maxTokens?: number) {
    this.#chosenTokens = maxTokens;
  }

  /** How large a batch should be now. */
  limits(maxTexts: number): BatchLimits {
    return {
      maxTexts,
      maxTokens: this.#chosenTokens ?? this.#maxTokens,
      maxPadding: this.#maxPadding,
    };
  }

  /** Learns from a batch. @param numTokens padding included. */
  observe(numTokens: number, durationMs: number): void {
    this.#fastestMs = Math.min(durationMs, this.#fastestMs * FASTEST_GROWTH);
    this.#weight = this.#weight * DECAY + 1;
    this.#tokens = this.#tokens * DECAY + numTokens;
    this.#ms = this.#ms * DECAY + durationMs;
    this.#tokensTokens = this.#tokensTokens * DECAY + numTokens * numTokens;
    this.#tokensMs = this.#tokensMs * DECAY + numTokens * durationMs;
    this.#choose();
  }

  #choose(): void {
    const meanTokens = this.#tokens / this.#weight;
    const meanMs = this.#ms / this.#weight;
    const variance = this.#tokensTokens / this.#weight - meanTokens ** 2;
    const msPerToken = meanMs / meanTokens;
    if (variance >= (MIN_SPREAD * meanTokens) ** 2) {
      const slope = (this.#tokensMs / this.#weight - meanTokens * meanMs) / variance;
      const runMs = Math.min(Math.max(0, meanMs - slope * meanTokens), this.#fastestMs);
      this.#maxPadding = clamp(runMs * meanTokens / (meanMs - runMs), 0, MAX_PADDING);
    }
    const minTokens = Math.max(MIN_TOKENS, MIN_RUN_COSTS * this.#maxPadding);
    this.#maxTokens = clamp(TARGET_MS / msPerToken, minTokens, MAX_TOKENS);
  }
}

function clamp(value: number, min: number, max: number): number {
  return Math.round(Math.min(max, Math.max(min, value)));
}
