/**
 * Chooses which texts run together next. Pure: no tensors, no promises.
 *
 * There are two goals. Texts of similar length should share a batch, since shorter ones are padded, and no request
 * should wait for another one with thousands of texts. So start-time fair queueing picks the first text of a batch, and
 * the other texts are picked by length, regardless of their owner. Without padding, lengths do not matter: start-time
 * fair queueing picks all texts.
 *
 * @see P. Goyal, H. M. Vin, H. Cheng: Start-time Fair Queueing, SIGCOMM 1996
 * @module
 */
import type { EncodedText } from "./encoder_tokenizer.ts";

export interface QueuedText<Owner> {
  readonly owner: Owner;
  /** Index among the texts of its owner. */
  readonly index: number;
  readonly text: EncodedText;
}

/** Limits for the size of a batch. */
export interface BatchLimits {
  readonly maxTexts: number;
  /** Maximum number of tokens of a batch, padding included, unless one text alone has more. */
  readonly maxTokens: number;
  /** Maximum number of padding tokens in a batch: as many as take as long as one more run. Absent without padding. */
  readonly maxPadding?: number | undefined;
}

interface Waiting<Owner> extends QueuedText<Owner> {
  /**
   * Virtual time at which the text may start: the start tag of the owner's previous text, plus the number of tokens of
   * that text.
   */
  readonly startTag: number;
}

/** Waiting texts of any number of owners. */
export class TextQueue<Owner> {
  /** Waiting texts, sorted by start tag. */
  #waiting: Waiting<Owner>[] = [];
  /** Start tag of each owner's next text. */
  readonly #nextTags = new Map<Owner, number>();
  /** Start tag of the first text of the last batch. The texts of new owners start here. */
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
 * Takes the text with the lowest start tag and the texts nearest in length, as long as the padding costs less than
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

/** Target duration of a batch in milliseconds. Cancellations and new requests wait up to this long. */
const TARGET_MS = 60;
/**
 * The least number of tokens in a batch, as a multiple of the number of tokens that take as long as a run's constant
 * cost. The constant cost then adds little.
 */
const MIN_RUN_COSTS = 16;
/** Bounds for the number of tokens of a batch. */
const MIN_TOKENS = 256;
const MAX_TOKENS = 16_384;
/** Maximum number of tokens of a batch before there are measurements. */
const FIRST_TOKENS = 1024;
const FIRST_PADDING = 16;
const MAX_PADDING = 512;
/**
 * Lower bound of the limit for a batch's padding tokens. On a CPU, one more run costs as much as about 16 tokens, since
 * it reads all weights. Noise can hide that cost, and without a minimum each text would then run in its own batch.
 */
const MIN_PADDING = 8;
/** Each new measurement multiplies the weights of the earlier ones by this, so only about the last twenty count. */
const DECAY = 0.95;
/**
 * The duration of the fastest recent batch bounds the constant cost. The bound grows by this factor with each batch.
 */
const FASTEST_GROWTH = 1.01;
/**
 * The least standard deviation of batch sizes, relative to their mean, at which the constant cost of a batch can be
 * distinguished from the cost per token.
 */
const MIN_SPREAD = 0.1;

/**
 * Models the duration of a batch as a constant plus a cost per token, fitted by least squares. Noise can make the
 * constant too large, which would make batches too large, so the fastest batch bounds it. Noise can also make the
 * constant too small, so it has a minimum.
 */
export class BatchCost {
  readonly #chosenTokens: number | undefined;
  #maxTokens = FIRST_TOKENS;
  #maxPadding = FIRST_PADDING;
  #fastestMs = Infinity;
  /** Weighted sums over the measurements: weights, tokens, milliseconds and products of these. */
  #weight = 0;
  #tokens = 0;
  #ms = 0;
  #tokensTokens = 0;
  #tokensMs = 0;

  /** @param maxTokens maximum number of tokens of a batch, if configured. */
  constructor(maxTokens?: number) {
    this.#chosenTokens = maxTokens;
  }

  /** Returns the current limits for a batch. */
  limits(maxTexts: number): BatchLimits {
    return {
      maxTexts,
      maxTokens: this.#chosenTokens ?? this.#maxTokens,
      maxPadding: this.#maxPadding,
    };
  }

  /**
   * Adapts the limits to the duration of a batch.
   *
   * @param numTokens number of tokens in the batch, padding included.
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
