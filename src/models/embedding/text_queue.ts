/**
 * Chooses which texts run together next. Pure: no tensors, no promises.
 *
 * There are two goals: texts of similar length should share a batch, since shorter ones are padded, and nobody should
 * wait for a request of thousands of texts. So start-time fair queueing picks the first text of a batch; the rest is
 * picked by length, regardless of owner. Without padding, lengths do not matter, and start-time fair queueing picks all
 * texts.
 *
 * @see P. Goyal, H. M. Vin, H. Cheng: Start-time Fair Queueing, SIGCOMM 1996
 * @module
 */
import type { EncodedText } from "./encoder_tokenizer.ts";

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
  /** Most padding tokens in a batch: as many tokens as one more run would cost. Absent if texts are not padded. */
  readonly maxPadding?: number | undefined;
}

interface Waiting<Owner> extends QueuedText<Owner> {
  /** Tokens granted to its owner before this text, on a scale on which new owners begin at the current virtual time. */
  readonly startTag: number;
}

/** Waiting texts of any number of owners. */
export class TextQueue<Owner> {
  /** Waiting texts, sorted by start tag. */
  #waiting: Waiting<Owner>[] = [];
  /** Start tag of each owner's next text. */
  readonly #nextTags = new Map<Owner, number>();
  /** Start tag of the last text that was picked: new owners begin here. */
  #virtualTime = 0;

  /** Tokens of all waiting texts. */
  get numTokens(): number {
    return this.#waiting.reduce((sum, queued) => sum + getLength(queued), 0);
  }

  get numTexts(): number {
    return this.#waiting.length;
  }

  /** Adds texts, each of at least one token. */
  add(texts: readonly QueuedText<Owner>[]): void {
    for (const queued of texts.toSorted((a, b) => getLength(b) - getLength(a))) {
      const startTag = Math.max(this.#virtualTime, this.#nextTags.get(queued.owner) ?? 0);
      this.#nextTags.set(queued.owner, startTag + getLength(queued));
      this.#waiting.push({ ...queued, startTag });
    }
    this.#waiting.sort((a, b) => a.startTag - b.startTag);
  }

  /** Removes all texts of an owner that has finished or been cancelled. */
  remove(owner: Owner): void {
    this.#nextTags.delete(owner);
    this.#waiting = this.#waiting.filter((queued) => queued.owner !== owner);
  }

  /** Takes the next batch; empty if none wait. Padded texts come longest first. */
  take(limits: BatchLimits): QueuedText<Owner>[] {
    const [first] = this.#waiting;
    if (first === undefined) return [];
    const batch = limits.maxPadding === undefined
      ? fillByTag(this.#waiting, limits)
      : fillByLength(this.#waiting, { ...limits, maxPadding: limits.maxPadding });
    const taken = new Set(batch);
    this.#waiting = this.#waiting.filter((queued) => !taken.has(queued));
    this.#virtualTime = first.startTag;
    return batch;
  }
}

/** Takes the texts with the lowest start tags until the batch is full. */
function fillByTag<Text extends QueuedText<unknown>>(
  waiting: readonly Text[],
  { maxTexts, maxTokens }: BatchLimits,
): Text[] {
  let numTokens = 0;
  const isFull = (queued: Text, index: number) =>
    index === maxTexts || (numTokens += getLength(queued)) > maxTokens;
  const end = waiting.findIndex((queued, index) => isFull(queued, index) && index > 0);
  return waiting.slice(0, end < 0 ? undefined : end);
}

/**
 * Takes the text with the lowest start tag and those nearest in length, as long as their padding costs less than
 * another run.
 */
function fillByLength<Text extends QueuedText<unknown>>(
  waiting: readonly Text[],
  { maxTexts, maxTokens, maxPadding }: BatchLimits & { readonly maxPadding: number },
): Text[] {
  const first = waiting[0]!;
  const byLength = waiting
    .filter((queued) => Math.abs(getLength(queued) - getLength(first)) <= maxPadding)
    .sort((a, b) => getLength(a) - getLength(b));
  const lengths = byLength.map(getLength);
  let low = byLength.indexOf(first);
  let high = low;
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
  return byLength.slice(low, high + 1).reverse();
}

function getLength({ text }: QueuedText<unknown>): number {
  return text.ids.length;
}

/** Target duration of a batch: cancellations and new requests wait up to this long. */
const TARGET_MS = 60;
/**
 * A batch must have at least this many times the tokens whose time equals a run's constant cost, so that little time is
 * lost.
 */
const MIN_RUN_COSTS = 16;
const MIN_TOKENS = 256;
const MAX_TOKENS = 16_384;
/** Tokens of a batch before there are measurements. */
const FIRST_TOKENS = 1024;
const FIRST_PADDING = 16;
const MAX_PADDING = 512;
/**
 * On a CPU, a run costs as much as some 16 more tokens, since it reads all weights. Noise can hide that cost; without a
 * minimum, each text would then get a batch of its own.
 */
const MIN_PADDING = 8;
/** The weight of a measurement decays by this factor with each later one: about the last twenty count. */
const DECAY = 0.95;
/** The fastest recent batch bounds the constant cost; the bound grows by this factor with each later batch. */
const FASTEST_GROWTH = 1.01;
/**
 * Sizes must vary at least this much, relative to their mean, to tell a batch's constant cost from the cost per token.
 */
const MIN_SPREAD = 0.1;

/**
 * Models the duration of a batch as a constant plus a cost per token, fitted by least squares. Noise can make the
 * constant too large, and batches would grow with it, so the fastest batch bounds it. Noise can also make it too small,
 * so it has a minimum.
 */
export class BatchCost {
  readonly #chosenTokens: number | undefined;
  #maxTokens = FIRST_TOKENS;
  #maxPadding = FIRST_PADDING;
  #fastestMs = Infinity;
  /** Sums over the measurements: weight, tokens, milliseconds and their products. */
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

  /**
   * Learns from a batch.
   *
   * @param numTokens the batch's tokens, padding included.
   */
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
