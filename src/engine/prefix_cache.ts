/**
 * The prefix cache: full blocks of the KV cache indexed by their content, and the search for a prompt's prefix among
 * them.
 *
 * @module
 */
import type { MediaSpan, Sequence } from "./sequence.ts";
import type { BlockTails, StateSlots } from "./idle_blocks.ts";
import { type Int32List, resizeArray } from "./int32_list.ts";
import type { PrefixEnd, WindowBlocks } from "./window_blocks.ts";

const NONE = -1;

/** The identity of a full block's content. */
interface BlockContent {
  /** Token ids: i32 `[blockSize]`. */
  readonly tokens: Int32Array;
  readonly media: string;
  /** The full block before this one, which stands for all tokens before this one; `NONE` for the first. */
  readonly predecessor: number;
  readonly scope: number;
  readonly hash: number;
}

/**
 * The full blocks of a pool, indexed by their content.
 *
 * A block's content is its own tokens, the media that they stand for, its scope, and its predecessor: the full block
 * before it, which stands for everything before it. So the blocks form a tree, and their hashes a chain. A hash has 32
 * bits and covers the tokens, the media and the predecessor's hash, or the scope for a first block. It only says where
 * to look: the blocks found there are compared by the predecessor's id, the scope, the media and every token. Since no
 * content is stored twice, equal predecessor ids mean equal tokens back to the first. So two prefixes are never
 * confused, even if their hashes are equal, and no client ever gets another's prompt. Token ids take 4 bytes each in
 * the index.
 *
 * The owner must remove a block before its predecessor.
 */
export class BlockIndex {
  readonly #blockSize: number;
  /** Token ids of all blocks: i32 `[numBlocks, blockSize]`. */
  #tokens = new Int32Array();
  #media: string[] = [];
  #predecessors = new Int32Array();
  #scopes = new Int32Array();
  #hashes = new Int32Array();
  #isIndexed = new Uint8Array();
  /** The first block of each bucket; `#nextInBucket` links the others. */
  #buckets = new Int32Array();
  #nextInBucket = new Int32Array();

  constructor(numBlocks: number, blockSize: number) {
    this.#blockSize = blockSize;
    this.resize(numBlocks);
  }

  /** Changes the number of blocks. The owner must have removed the blocks that disappear. */
  resize(numBlocks: number): void {
    this.#tokens = resizeArray(this.#tokens, numBlocks * this.#blockSize);
    this.#media = Array.from({ length: numBlocks }, (_, i) => this.#media[i] ?? "");
    this.#predecessors = resizeArray(this.#predecessors, numBlocks);
    this.#scopes = resizeArray(this.#scopes, numBlocks);
    this.#hashes = resizeArray(this.#hashes, numBlocks);
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

  /** The `cacheScope` of the sequence that added the block to the index. */
  getScope(blockId: number): number {
    return this.#scopes[blockId]!;
  }

  /**
   * Lists the indexed blocks whose ids are `first` or higher, and the indexed blocks whose prefix contains one of them.
   */
  withPrefixFrom(first: number): number[] {
    /** For each visited block before `first`: whether it has such a predecessor. */
    const known = new Map<number, boolean>();
    const isBehind = (start: number): boolean => {
      // A loop, not a recursion: a prefix may have thousands of blocks.
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

  /**
   * Finds the block with the same content as the full block `index` of `sequence`. The sequence's block table must hold
   * all blocks before it.
   */
  find(sequence: Sequence, index: number): number | undefined {
    return this.#search(this.#sliceContent(sequence, index));
  }

  /** Finds a block like {@linkcode find}. If there is none, adds the sequence's own block. */
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

/** Describes the media among the tokens from `start` to `end`, with their positions; empty if there are none. */
function describeMedia(media: readonly MediaSpan[], start: number, end: number): string {
  let description = "";
  for (const span of media) {
    if (span.start >= end || span.end <= start) continue;
    description += `${span.start - start}:${span.end - start}:${span.key};`;
  }
  return description;
}

/** Mixes another 32-bit word into a hash: a round of MurmurHash3 (x86, 32 bits; Austin Appleby, public domain). */
export function mixHash(hash: number, value: number): number {
  let k = Math.imul(value, 0xcc9e2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  const h = hash ^ k;
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

/** The last step of MurmurHash3: spreads every bit of `hash` to the low bits, which choose the bucket. */
function spreadHash(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** A tail, and how many of its tokens a sequence can reuse. */
export interface FoundTail {
  readonly blockId: number;
  readonly numTokens: number;
}

/** The position from which a sequence continues, and the tail before that position, if any. */
export interface FoundPrefix {
  readonly tail: FoundTail | undefined;
  readonly end: PrefixEnd;
}

/** The parts of the cache to search: the main pool, and the states and window blocks that belong to its blocks. */
interface PrefixSearchParts {
  readonly blockSize: number;
  readonly index: BlockIndex;
  readonly tails: BlockTails;
  readonly slots: StateSlots | undefined;
  readonly windows: readonly WindowBlocks[];
}

/**
 * Finds the longest cached prefix of a waiting sequence. A prefix is cached as far as its blocks, the recurrent state
 * after them, and the blocks of all windows before that position are cached.
 */
export class PrefixSearch {
  readonly #parts: PrefixSearchParts;

  constructor(parts: PrefixSearchParts) {
    this.#parts = parts;
  }

  /** Puts the cached blocks among a sequence's first `numBlocks` into its empty table, without referencing them. */
  find(sequence: Sequence, numBlocks: number): FoundPrefix {
    for (let i = 0; i < numBlocks; i++) {
      const blockId = this.#parts.index.find(sequence, i);
      if (blockId === undefined) break;
      sequence.blockIds.push(blockId);
    }
    const tail = this.#trimToKnown(sequence);
    return { tail, end: this.#findEnd(sequence, tail) };
  }

  /** The position from which a sequence continues, given that its table holds the cached full blocks. */
  #findEnd({ blockIds }: Sequence, tail: FoundTail | undefined): PrefixEnd {
    const numTokens = blockIds.length * this.#parts.blockSize + (tail?.numTokens ?? 0);
    return { numTokens, tail: tail?.blockId };
  }

  /** Finds the tail after a sequence's full blocks, if it begins with the same tokens. */
  #findTail(sequence: Sequence): FoundTail | undefined {
    const numTokens = this.#parts.tails.countSame(sequence);
    if (numTokens === 0) return undefined;
    const { blockIds } = sequence;
    return { blockId: this.#parts.tails.after(blockIds.at(blockIds.length - 1))!, numTokens };
  }

  /**
   * Drops blocks from the end of a sequence's table until the state after the remaining blocks, and the window blocks
   * before that position, are cached.
   *
   * @returns the tail that the sequence can continue from, if any.
   */
  #trimToKnown(sequence: Sequence): FoundTail | undefined {
    const tail = this.#findTail(sequence);
    if (tail !== undefined && this.#isKnownBehind(sequence, tail)) return tail;
    const { blockIds } = sequence;
    let numKept = blockIds.length;
    while (numKept > 0) {
      const gap = this.#findGap(blockIds, numKept);
      if (gap === undefined) break;
      numKept = gap;
    }
    blockIds.truncate(numKept);
    return undefined;
  }

  #isKnownBehind(sequence: Sequence, tail: FoundTail): boolean {
    const slots = this.#parts.slots;
    const isWhole = tail.numTokens === this.#parts.tails.getLength(tail.blockId);
    if (slots !== undefined && !(isWhole && slots.has(tail.blockId))) return false;
    const { blockIds } = sequence;
    const end = this.#findEnd(sequence, tail);
    return this.#parts.windows.every((each) =>
      each.findGap(blockIds, blockIds.length, end) === undefined
    );
  }

  /**
   * Returns the maximum number of blocks to try next, if something is missing for a prefix of `numKept` blocks;
   * otherwise `undefined`.
   */
  #findGap(blockIds: Int32List, numKept: number): number | undefined {
    if (this.#parts.slots?.has(blockIds.at(numKept - 1)) === false) return numKept - 1;
    const end = { numTokens: numKept * this.#parts.blockSize };
    for (const window of this.#parts.windows) {
      const gap = window.findGap(blockIds, numKept, end);
      if (gap !== undefined) return gap;
    }
    return undefined;
  }
}
