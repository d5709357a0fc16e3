/**
 * Which texts run together next. Pure: no tensors, no promises.
 *
 * Two wishes pull apart: texts of one length should share a batch, since shorter ones are padded, and nobody should
 * wait for a request of thousands of texts. So the request that has had the least work, by weighted fair queueing,
 * picks the batch's first text; what fills the batch up is picked by length alone, whoever it belongs to. Where nothing
 * is padded, lengths are of no account, and each text of a batch is picked as its first.
 *
 * @see A. Demers, S. Keshav, S. Shenker: Analysis and Simulation of a Fair Queueing Algorithm, SIGCOMM 1989
 * @module
 */
import type { EncodedText } from "./encoder_tokenizer.ts";

/** A text in the queue. */
export interface QueuedText<Owner> {
  readonly owner: Owner;
  /** Place among its owner's texts. */
  readonly index: number;
  readonly text: EncodedText;
}

/** How large a batch may be. */
export interface BatchLimits {
  readonly maxTexts: number;
  /** Most tokens of a batch, padding included, unless one text alone has more. */
  readonly maxTokens: number;
  /**
   * Most tokens of padding in a batch: as many as a run of its own would cost, in tokens. Absent where texts are not
   * padded.
   */
  readonly maxPadding?: number | undefined;
}

/** Texts that wait, of any number of owners. */
export class TextQueue<Owner> {
  /** By length, shortest first. */
  #waiting: QueuedText<Owner>[] = [];
  /** Work done for each owner that has texts here, in tokens, counted from when all were served alike. */
  readonly #served = new Map<Owner, number>();
  /** What an owner would have been served so far, had all of them always been served alike. */
  #fairShare = 0;
  #numTokens = 0;

  /** Tokens of all texts that wait. */
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

  /** Drops all texts of an owner that is served or gives up. */
  remove(owner: Owner): void {
    this.#served.delete(owner);
    this.#waiting = this.#waiting.filter((queued) => {
      if (queued.owner !== owner) return true;
      this.#numTokens -= lengthOf(queued);
      return false;
    });
  }

  /** Takes the next batch out, longest text first; empty when none wait. */
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

  /** The longest text of the owner that was served least, the older one among equals. */
  #findFirst(): number {
    const owners = new Set(this.#waiting.map(({ owner }) => owner));
    const least = leastServed(this.#served, owners);
    return this.#waiting.findLastIndex(({ owner }) => owner === least);
  }

  /** The places of texts of the owners served least, one at a time, until the batch is full. */
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

  /** The places of the first text and of those nearest in length, as many as cost less padding than a run. */
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

/** Of these owners the first of those that have had the least work. */
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
