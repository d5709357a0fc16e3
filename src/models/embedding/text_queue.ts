/**
 * Which texts run together next, and how many. Pure: no tensors, no promises.
 *
 * There are two goals: texts of one length should share a batch, since shorter ones are padded, and nobody should wait
 * for a request of thousands of texts. So the request that has had the least work, by weighted fair queueing, picks the
 * batch's first text; the rest of the batch is picked by length, regardless of owner. Without padding lengths do not
 * matter, and every text of a batch is picked like the first. How large a batch is best on this device is estimated from
 * past batches.
 *
 * @see A. Demers, S. Keshav, S. Shenker: Analysis and Simulation of a Fair Queueing Algorithm, SIGCOMM 1989
 * @module
 */
import type { EncodedText } from "./encoder_tokenizer.ts";

/** A text in the queue. */
export interface QueuedText<Owner> {
  readonly owner: Owner;
  /** Index among its owner's texts. */
  readonly index: number;
  readonly text: EncodedText;
}

/** How large a batch may be. */
export interface BatchLimits {
  readonly maxTexts: number;
  /** Most tokens of a batch, padding included, unless one text alone has more. */
  readonly maxTokens: number;
  /**
   * Most tokens of padding in a batch: as many as another run would cost, in tokens. Absent if texts are not padded.
   */
  readonly maxPadding?: number | undefined;
}

/** Waiting texts of any number of owners. */
export class TextQueue<Owner> {
  /** By length, shortest first. */
  #waiting: QueuedText<Owner>[] = [];
  /** Virtual service of each owner with texts here, in tokens. */
  readonly #served = new Map<Owner, number>();
  /** The fair share of service per owner so far, the virtual time. */
  #fairShare = 0;
  #numTokens = 0;

  /** Tokens of all waiting texts. */
  get numTokens(): number {
    return this.#numTokens;
  }

  get numTexts(): number {
    return this.#waiting.length;
  }

  /** Adds texts, each of at least one token. */
  add(texts: readonly QueuedText<Owner>[]): void {
    for (const { owner, text } of texts) {
      if (!this.#served.has(owner)) this.#served.set(owner, this.#fairShare);
      this.#numTokens += text.ids.length;
    }
    this.#waiting.push(...texts);
    this.#waiting.sort((a, b) => lengthOf(a) - lengthOf(b));
  }

  /** Removes all texts of an owner that has finished or cancelled. */
  remove(owner: Owner): void {
    this.#served.delete(owner);
    this.#waiting = this.#waiting.filter((queued) => {
      if (queued.owner !== owner) return true;
      this.#numTokens -= lengthOf(queued);
      return false;
    });
  }

  /** Takes the next batch, longest text first; empty if none wait. */
  take(limits: BatchLimits): QueuedText<Owner>[] {
    const { maxPadding } = limits;
    const taken = maxPadding === undefined
      ? this.#chooseInTurn(limits)
      : this.#chooseAlike({ ...limits, maxPadding });
    if (taken.size === 0) return [];
    const batch = [...taken].sort((a, b) => b - a).map((position) => this.#waiting[position]!);
    this.#waiting = this.#waiting.filter((_, position) => !taken.has(position));
    this.#charge(batch);
    return batch;
  }

  /** The longest text of the least-served owner, the oldest among equals. */
  #findFirst(): number {
    const owners = new Set(this.#waiting.map(({ owner }) => owner));
    const least = leastServed(this.#served, owners);
    return this.#waiting.findLastIndex(({ owner }) => owner === least);
  }

  /** Indices of texts of the least-served owners, one at a time, until the batch is full. */
  #chooseInTurn({ maxTexts, maxTokens }: BatchLimits): Set<number> {
    const indexesOf = Map.groupBy(
      this.#waiting.keys(),
      (position) => this.#waiting[position]!.owner,
    );
    const served = new Map(this.#served);
    const taken = new Set<number>();
    let room = maxTokens;
    while (indexesOf.size > 0 && taken.size < maxTexts) {
      const owner = leastServed(served, indexesOf)!;
      const indexes = indexesOf.get(owner)!;
      const length = lengthOf(this.#waiting[indexes.at(-1)!]!);
      if (length > room && taken.size > 0) break;
      taken.add(indexes.pop()!);
      room -= length;
      served.set(owner, served.get(owner)! + length);
      if (indexes.length === 0) indexesOf.delete(owner);
    }
    return taken;
  }

  /** Indices of the first text and of those nearest in length, as long as the padding costs less than another run. */
  #chooseAlike(
    { maxTexts, maxTokens, maxPadding }: BatchLimits & { readonly maxPadding: number },
  ): Set<number> {
    const first = this.#findFirst();
    if (first < 0) return new Set();
    const lengths = this.#waiting.map(lengthOf);
    let [low, high] = [first, first];
    let padding = 0;
    while (true) {
      const count = high - low + 1;
      const [below = -Infinity, above = Infinity] = [lengths[low - 1], lengths[high + 1]];
      const longest = lengths[high]!;
      const isShorter = longest - below <= (above - longest) * count;
      padding += isShorter ? longest - below : (above - longest) * count;
      const numTokens = (count + 1) * (isShorter ? longest : above);
      if (padding > maxPadding || count === maxTexts || numTokens > maxTokens) break;
      if (isShorter) low--;
      else high++;
    }
    return new Set(Array.from({ length: high - low + 1 }, (_, i) => low + i));
  }

  #charge(batch: readonly QueuedText<Owner>[]): void {
    let work = 0;
    for (const queued of batch) {
      const length = lengthOf(queued);
      work += length;
      this.#served.set(queued.owner, this.#served.get(queued.owner)! + length);
    }
    this.#numTokens -= work;
    this.#fairShare += work / this.#served.size;
  }
}

/** The first of the least-served owners. */
function leastServed<Owner>(
  served: ReadonlyMap<Owner, number>,
  owners: { has(owner: Owner): boolean },
): Owner | undefined {
  let least: Owner | undefined;
  for (const [owner, work] of served) {
    if (owners.has(owner) && (least === undefined || work < served.get(least)!)) least = owner;
  }
  return least;
}

function lengthOf({ text }: QueuedText<unknown>): number {
  return text.ids.length;
}

/** Target time of a batch: cancellations and new requests wait this long. */
const TARGET_MS = 60;
/** Least ratio of a batch's tokens to those whose time equals the constant cost, so that little time is lost. */
const MIN_RUN_COSTS = 16;
const MIN_TOKENS = 256;
const MAX_TOKENS = 16_384;
/** Before there are observations. */
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
