/**
 * How large a batch of texts is best on this device, estimated from past batches. Pure.
 *
 * @module
 */
import type { BatchLimits } from "./text_queue.ts";

/** Target time of a batch: cancellations and new requests wait this long. */
const TARGET_MS = 60;
/** Least ratio of a batch's tokens to those whose time equals the constant cost, so that little time is lost. */
const MIN_RUN_COSTS = 16;
const MIN_TOKENS = 256;
const MAX_TOKENS = 16_384;
/** Tokens of a batch before there are observations. */
const FIRST_TOKENS = 1024;
const FIRST_PADDING = 16;
const MAX_PADDING = 512;
/**
 * A run that reads all weights costs a CPU as much as some 16 tokens. Noise can hide that, and batches of a text each
 * would follow.
 */
const MIN_PADDING = 8;
/** Decay of an observation's weight per later one: about the last twenty count. */
const DECAY = 0.95;
/** The fastest recent batch bounds the constant cost; the bound grows by this factor with each later batch. */
const FASTEST_GROWTH = 1.01;
/** Least relative deviation of sizes needed to separate a batch's constant cost from the cost per token. */
const MIN_SPREAD = 0.1;

/**
 * Models the time of a batch as a constant plus a cost per token, fitted by least squares. Noise can make the constant
 * too large, and batches grow with it, so it is bounded by the fastest batch; or too small, so it has a least value too.
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

  /** @param maxTokens most tokens of a batch, if configured. */
  constructor(maxTokens?: number) {
    this.#chosenTokens = maxTokens;
  }

  /** The current batch size in tokens. */
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
      this.#maxPadding = clamp(runMs * meanTokens / (meanMs - runMs), MIN_PADDING, MAX_PADDING);
    }
    const minTokens = Math.max(MIN_TOKENS, MIN_RUN_COSTS * this.#maxPadding);
    this.#maxTokens = clamp(TARGET_MS / msPerToken, minTokens, MAX_TOKENS);
  }
}

function clamp(value: number, min: number, max: number): number {
  return Math.round(Math.min(max, Math.max(min, value)));
}
