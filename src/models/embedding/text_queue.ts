/**
 * Which texts run together next. Pure: no tensors, no promises.
 *
 * There are two goals: texts of one length should share a batch, since shorter ones are padded, and nobody should wait
 * for a request of thousands of texts. So a batch begins with the text whose turn it is by start-time fair queueing; the
 * rest of it is picked by length, regardless of owner. Without padding lengths do not matter, and the batch is filled in
 * the order of turns.
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
  /**
   * Most tokens of padding in a batch: as many as another run would cost, in tokens. Absent if texts are not padded.
   */
  readonly maxPadding?: number | undefined;
}

interface Waiting<Owner> extends QueuedText<Owner> {
  /** Tokens that its owner has been granted before it, counted from where newcomers begin. */
  readonly startTag: number;
}

/** Waiting texts of any number of owners. */
export class TextQueue<Owner> {
  /** Owners in the order of their turns. */
  #waiting: Waiting<Owner>[] = [];
  /** Start tag of each owner's next text. */
  readonly #nextTags = new Map<Owner, number>();
  /** Start tag of the last text that had its turn: newcomers begin here. */
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

  /** Removes all texts of an owner that has finished or cancelled. */
  remove(owner: Owner): void {
    this.#nextTags.delete(owner);
    this.#waiting = this.#waiting.filter((queued) => queued.owner !== owner);
  }

  /** Takes the next batch; empty if none wait. Padded texts come longest first. */
  take(limits: BatchLimits): QueuedText<Owner>[] {
    const [first] = this.#waiting;
    if (first === undefined) return [];
    const batch = limits.maxPadding === undefined
      ? fillInTurn(this.#waiting, limits)
      : fillAlike(this.#waiting, { ...limits, maxPadding: limits.maxPadding });
    const taken = new Set(batch);
    this.#waiting = this.#waiting.filter((queued) => !taken.has(queued));
    this.#virtualTime = first.startTag;
    return batch;
  }
}

/** The texts whose turn is next, until the batch is full. */
function fillInTurn<Text extends QueuedText<unknown>>(
  waiting: readonly Text[],
  { maxTexts, maxTokens }: BatchLimits,
): Text[] {
  let numTokens = 0;
  const isFull = (queued: Text, index: number) =>
    index === maxTexts || (numTokens += getLength(queued)) > maxTokens;
  const end = waiting.findIndex((queued, index) => isFull(queued, index) && index > 0);
  return waiting.slice(0, end < 0 ? undefined : end);
}

/** The text whose turn it is and those nearest in length, as long as the padding costs less than another run. */
function fillAlike<Text extends QueuedText<unknown>>(
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
