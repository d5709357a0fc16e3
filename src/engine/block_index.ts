import type { MediaSpan, Sequence } from "./sequence.ts";

const NONE = -1;

/** Everything that makes two full blocks the same. */
interface BlockContent {
  /** i32 `[blockSize]`. */
  readonly tokens: Int32Array;
  readonly media: string;
  /** The block that holds everything before this one, `NONE` for the first. */
  readonly predecessor: number;
  readonly scope: number;
  readonly hash: number;
}

/**
 * The full blocks of a pool by what they hold.
 *
 * A block's content is its own tokens, the media they stand for, and its predecessor, which is the one block that
 * holds everything before it: a hash chain, and at the same time a tree. The hash (32 bits, of the tokens, the media
 * and the predecessor's hash) only says where to look. What is found there is compared with the predecessor's id,
 * the media and every token; and as no content is kept twice, an equal predecessor id means equal tokens back to
 * the first. So two prefixes are never confused, whatever their hashes: a wrong answer, or a look at another client's
 * prompt, is not a matter of luck. The price is 4 bytes a token.
 *
 * Its owner must remove a block before its predecessor.
 */
export class BlockIndex {
  readonly #blockSize: number;
  /** i32 `[numBlocks, blockSize]`. */
  #tokens = new Int32Array();
  #media: string[] = [];
  #predecessors = new Int32Array();
  #scopes = new Int32Array();
  #hashes = new Int32Array();
  #isIndexed = new Uint8Array();
  /** The first block of each bucket; `#nextInBucket` has the others. */
  #buckets = new Int32Array();
  #nextInBucket = new Int32Array();

  constructor(numBlocks: number, blockSize: number) {
    this.#blockSize = blockSize;
    this.resize(numBlocks);
  }

  /** Changes the number of blocks; its owner has removed those that go. */
  resize(numBlocks: number): void {
    this.#tokens = resized(this.#tokens, numBlocks * this.#blockSize);
    this.#media = Array.from({ length: numBlocks }, (_, i) => this.#media[i] ?? "");
    this.#predecessors = resized(this.#predecessors, numBlocks);
    this.#scopes = resized(this.#scopes, numBlocks);
    this.#hashes = resized(this.#hashes, numBlocks);
    const isIndexed = new Uint8Array(numBlocks);
    isIndexed.set(this.#isIndexed.subarray(0, numBlocks));
    this.#isIndexed = isIndexed;
    this.#buckets = new Int32Array(2 ** Math.ceil(Math.log2(numBlocks * 2))).fill(NONE);
    this.#nextInBucket = new Int32Array(numBlocks);
    for (let blockId = 0; blockId < numBlocks; blockId++) {
      if (this.has(blockId)) this.#addToBucket(blockId);
    }
  }

  has(blockId: number): boolean {
    return this.#isIndexed[blockId] === 1;
  }

  /** The `cacheScope` of the sequence that brought an indexed block here. */
  getScope(blockId: number): number {
    return this.#scopes[blockId]!;
  }

  /** The indexed blocks from `first` on, and those that have one of them before them in their sequence. */
  withPrefixFrom(first: number): number[] {
    /** Whether blocks before `first` that were looked at are among them. */
    const known = new Map<number, boolean>();
    const isBehind = (start: number): boolean => {
      // Walked, not recursed: a prefix may have thousands of blocks.
      const walked: number[] = [];
      let blockId = start;
      while (blockId !== NONE && blockId < first && !known.has(blockId)) {
        walked.push(blockId);
        blockId = this.#predecessors[blockId]!;
      }
      const found = blockId !== NONE && (known.get(blockId) ?? true);
      for (const each of walked) known.set(each, found);
      return found;
    };
    return Array.from(this.#isIndexed.keys()).filter((id) => this.has(id) && isBehind(id));
  }

  /** The block that holds what the full block `index` of `sequence` holds; its table must reach up to there. */
  find(sequence: Sequence, index: number): number | undefined {
    return this.#search(this.#sliceContent(sequence, index));
  }

  /** Like {@linkcode find}, but what is not there is added, in the sequence's own block. */
  findOrAdd(sequence: Sequence, index: number): number {
    const content = this.#sliceContent(sequence, index);
    const found = this.#search(content);
    if (found !== undefined) return found;

    const blockId = sequence.blockIds.at(index);
    this.#tokens.set(content.tokens, blockId * this.#blockSize);
    this.#media[blockId] = content.media;
    this.#predecessors[blockId] = content.predecessor;
    this.#scopes[blockId] = content.scope;
    this.#hashes[blockId] = content.hash;
    this.#isIndexed[blockId] = 1;
    this.#addToBucket(blockId);
    return blockId;
  }

  /** Forgets a block that is in the index. */
  remove(blockId: number): void {
    const bucket = this.#hashToBucket(this.#hashes[blockId]!);
    const next = this.#nextInBucket[blockId]!;
    if (this.#buckets[bucket] === blockId) this.#buckets[bucket] = next;
    else {
      let before = this.#buckets[bucket]!;
      while (this.#nextInBucket[before] !== blockId) before = this.#nextInBucket[before]!;
      this.#nextInBucket[before] = next;
    }
    this.#media[blockId] = "";
    this.#isIndexed[blockId] = 0;
  }

  #addToBucket(blockId: number): void {
    const bucket = this.#hashToBucket(this.#hashes[blockId]!);
    this.#nextInBucket[blockId] = this.#buckets[bucket]!;
    this.#buckets[bucket] = blockId;
  }

  #search(content: BlockContent): number | undefined {
    let blockId = this.#buckets[this.#hashToBucket(content.hash)]!;
    while (blockId !== NONE && !this.#holds(blockId, content)) {
      blockId = this.#nextInBucket[blockId]!;
    }
    return blockId === NONE ? undefined : blockId;
  }

  #holds(blockId: number, content: BlockContent): boolean {
    return this.#hashes[blockId] === content.hash &&
      this.#predecessors[blockId] === content.predecessor &&
      this.#scopes[blockId] === content.scope &&
      this.#media[blockId] === content.media &&
      this.#holdsTokens(blockId, content.tokens);
  }

  #holdsTokens(blockId: number, tokens: Int32Array): boolean {
    const start = blockId * this.#blockSize;
    for (let i = 0; i < tokens.length; i++) {
      if (this.#tokens[start + i] !== tokens[i]) return false;
    }
    return true;
  }

  #sliceContent(sequence: Sequence, index: number): BlockContent {
    const start = index * this.#blockSize;
    const end = start + this.#blockSize;
    const tokens = sequence.tokens.view(start, end);
    const media = describeMedia(sequence.media, start, end);
    const scope = sequence.cacheScope;
    const predecessor = index === 0 ? NONE : sequence.blockIds.at(index - 1);

    let hash = predecessor === NONE ? scope : this.#hashes[predecessor]!;
    for (let i = 0; i < tokens.length; i++) hash = mixHash(hash, tokens[i]!);
    for (let i = 0; i < media.length; i++) hash = mixHash(hash, media.charCodeAt(i));
    return { tokens, media, predecessor, scope, hash };
  }

  #hashToBucket(hash: number): number {
    return spreadHash(hash) & (this.#buckets.length - 1);
  }
}

/** A copy of another length. */
function resized(values: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const copy = new Int32Array(length);
  copy.set(values.subarray(0, length));
  return copy;
}

/** Which media stand in tokens `start` to `end`, and where; empty when none do. */
function describeMedia(media: readonly MediaSpan[], start: number, end: number): string {
  let description = "";
  for (const span of media) {
    if (span.start >= end || span.end <= start) continue;
    description += `${span.start - start}:${span.end - start}:${span.key};`;
  }
  return description;
}

/** Takes one 32-bit word more into a hash: a round of MurmurHash3 (x86, 32 bits; Austin Appleby, public domain). */
export function mixHash(hash: number, value: number): number {
  let k = Math.imul(value, 0xcc9e2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  const h = hash ^ k;
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

/** The last step of MurmurHash3: every bit of `hash` reaches the low bits that choose the bucket. */
function spreadHash(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
