import { StartupError } from "../base/errors.ts";
import type { ConfigReader } from "./config_reader.ts";
import { readVocabulary, type TokenModel, type Vocabulary } from "./vocabulary.ts";

/** Maximum number of words whose tokens are cached. */
const MAX_CACHED_WORDS = 10_000;
/** Longest word whose tokens are cached, in UTF-16 units. */
const MAX_CACHED_LENGTH = 256;

const encoder = new TextEncoder();

/** Byte-pair encoding: characters are merged pair by pair, in the order of the merges (Sennrich et al. 2016). */
export class BpeModel implements TokenModel {
  readonly vocabulary: Vocabulary;
  readonly #merges: MergeTable;
  readonly #unkId: number | undefined;
  readonly #prefix: string;
  readonly #suffix: string;
  readonly #fusesUnknown: boolean;
  readonly #ignoresMerges: boolean;
  /** Ids of the byte tokens, by byte; absent if unknown characters do not become bytes. */
  readonly #byteIds: Int32Array | undefined;
  #cache = new Map<string, readonly number[]>();

  constructor(reader: ConfigReader) {
    this.vocabulary = readVocabulary(reader);
    this.#unkId = this.vocabulary.tokenToId(reader.optionalString("unk_token") ?? "");
    this.#prefix = reader.string("continuing_subword_prefix", "");
    this.#suffix = reader.string("end_of_word_suffix", "");
    this.#fusesUnknown = reader.boolean("fuse_unk", false);
    this.#ignoresMerges = reader.boolean("ignore_merges", false);
    if (reader.boolean("byte_fallback", false)) this.#byteIds = this.vocabulary.byteIds();
    this.#merges = this.#readMerges(reader.array("merges"));
  }

  encode(word: string, ids: number[]): void {
    let found = this.#cache.get(word);
    if (found === undefined) {
      found = this.#encode(word);
      if (word.length <= MAX_CACHED_LENGTH) {
        if (this.#cache.size >= MAX_CACHED_WORDS) this.#cache = new Map();
        this.#cache.set(word, found);
      }
    }
    for (const id of found) ids.push(id);
  }

  #encode(word: string): readonly number[] {
    const whole = this.#ignoresMerges ? this.vocabulary.tokenToId(word) : undefined;
    return whole === undefined ? mergePairs(this.#idsOfChars(word), this.#merges) : [whole];
  }

  #idsOfChars(word: string): number[] {
    const ids: number[] = [];
    let wasUnknown = false;
    for (let at = 0; at < word.length;) {
      const width = word.codePointAt(at)! > 0xffff ? 2 : 1;
      const next = at + width;
      let char = word.slice(at, next);
      if (at > 0) char = this.#prefix + char;
      if (next >= word.length) char += this.#suffix;
      at = next;
      const id = this.vocabulary.tokenToId(char);
      if (id !== undefined) ids.push(id);
      else if (this.#pushBytes(char, ids)) continue;
      else if (this.#unkId !== undefined && !(wasUnknown && this.#fusesUnknown)) {
        ids.push(this.#unkId);
      }
      wasUnknown = id === undefined;
    }
    return ids;
  }

  /**
   * Appends the byte tokens of a character.
   *
   * @returns whether there is a token for each byte.
   */
  #pushBytes(char: string, ids: number[]): boolean {
    const byteIds = this.#byteIds;
    if (byteIds === undefined) return false;
    const bytes = encoder.encode(char);
    if (!bytes.every((byte) => byteIds[byte]! >= 0)) return false;
    for (const byte of bytes) ids.push(byteIds[byte]!);
    return true;
  }

  #readMerges(merges: readonly unknown[]): MergeTable {
    const table = new MergeTable(merges.length);
    // Most vocabularies list the merged tokens in the order of the merges, so the next id is the likely result.
    let expected = 0;
    for (let rank = 0; rank < merges.length; rank++) {
      const merge = merges[rank];
      const pair = typeof merge === "string" ? splitPair(merge) : merge as string[] | null;
      // Not destructured: that is slower, and there are hundreds of thousands of merges.
      const left = pair?.[0];
      const right = pair?.[1];
      const leftId = this.vocabulary.tokenToId(left!);
      const rightId = this.vocabulary.tokenToId(right!);
      const merged = leftId === undefined || rightId === undefined
        ? undefined
        : this.#findMerged(left!, right!.slice(this.#prefix.length), expected);
      if (merged === undefined) {
        throw new StartupError(
          `tokenizer.json: model.merges[${rank}]: ${JSON.stringify(merge)} merges no two tokens ` +
            "of the vocabulary into a third.",
        );
      }
      table.set(leftId!, rightId!, { rank, merged });
      expected = merged + 1;
    }
    return table;
  }

  /**
   * Finds the id of the token that two texts join to. Comparing them with the expected token is faster than joining
   * them for a lookup.
   */
  #findMerged(left: string, right: string, expected: number): number | undefined {
    const token = this.vocabulary.idToToken(expected);
    const isExpected = token?.length === left.length + right.length && token.startsWith(left) &&
      token.endsWith(right);
    return isExpected ? expected : this.vocabulary.tokenToId(left + right);
  }
}

function splitPair(merge: string): string[] {
  const at = merge.indexOf(" ");
  return at < 0 ? [] : [merge.slice(0, at), merge.slice(at + 1)];
}

/** Words of at most this many symbols are merged by scanning all of them for the next pair. */
const MAX_SCANNED = 24;

/**
 * Merges neighbouring tokens: the pair of the lowest rank first, and of equal ranks the leftmost.
 *
 * @param ids may be modified.
 */
function mergePairs(ids: number[], merges: MergeTable): readonly number[] {
  if (ids.length < 2) return ids;
  return ids.length <= MAX_SCANNED ? mergeShort(ids, merges) : mergeLong(ids, merges);
}

function mergeShort(ids: number[], merges: MergeTable): readonly number[] {
  const ranks: number[] = [];
  for (let i = 0; i + 1 < ids.length; i++) ranks.push(merges.getRank(ids[i]!, ids[i + 1]!));
  for (;;) {
    let best = -1;
    for (let i = 0; i < ranks.length; i++) {
      if (ranks[i]! >= 0 && (best < 0 || ranks[i]! < ranks[best]!)) best = i;
    }
    if (best < 0) return ids;
    ids[best] = merges.getMerged(ids[best]!, ids[best + 1]!);
    ids.splice(best + 1, 1);
    ranks.splice(best, 1);
    if (best > 0) ranks[best - 1] = merges.getRank(ids[best - 1]!, ids[best]!);
    if (best < ranks.length) ranks[best] = merges.getRank(ids[best]!, ids[best + 1]!);
  }
}

/**
 * Merges a long word. Symbols form a linked list and pairs wait in a heap, so a word of n symbols takes n log n steps.
 */
function mergeLong(ids: number[], merges: MergeTable): readonly number[] {
  const { length } = ids;
  const next = Int32Array.from(ids, (_, index) => index + 1);
  const previous = Int32Array.from(ids, (_, index) => index - 1);
  const heap = new PairHeap();
  const add = (at: number) => {
    const after = next[at]!;
    const rank = after < length ? merges.getRank(ids[at]!, ids[after]!) : -1;
    if (rank >= 0) heap.push(rank, at);
  };
  for (let at = 0; at < length; at++) add(at);
  for (let pair = heap.pop(); pair !== undefined; pair = heap.pop()) {
    const { rank, at } = pair;
    const after = next[at]!;
    // One of the two may have been merged in the meantime.
    const isThere = ids[at]! >= 0 && after < length &&
      merges.getRank(ids[at]!, ids[after]!) === rank;
    if (!isThere) continue;
    ids[at] = merges.getMerged(ids[at]!, ids[after]!);
    ids[after] = -1;
    next[at] = next[after]!;
    if (next[at] < length) previous[next[at]] = at;
    add(at);
    if (previous[at]! >= 0) add(previous[at]!);
  }
  return ids.filter((id) => id >= 0);
}

/** Positions must be below this to fit into a heap key. */
const MAX_POSITIONS = 2 ** 32;

/** A binary heap of pairs, ordered by rank and then by position. */
class PairHeap {
  /** Each key is the rank times {@linkcode MAX_POSITIONS}, plus the position. */
  readonly #keys: number[] = [];

  push(rank: number, at: number): void {
    const keys = this.#keys;
    const key = rank * MAX_POSITIONS + at;
    let index = keys.push(key) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (keys[parent]! <= key) break;
      keys[index] = keys[parent]!;
      index = parent;
    }
    keys[index] = key;
  }

  pop(): { rank: number; at: number } | undefined {
    const keys = this.#keys;
    const [first] = keys;
    if (first === undefined) return undefined;
    const key = keys.pop()!;
    for (let index = 0; index < keys.length;) {
      let child = 2 * index + 1;
      if (child + 1 < keys.length && keys[child + 1]! < keys[child]!) child++;
      if (child >= keys.length || keys[child]! >= key) {
        keys[index] = key;
        break;
      }
      keys[index] = keys[child]!;
      index = child;
    }
    const rank = Math.floor(first / MAX_POSITIONS);
    return { rank, at: first - rank * MAX_POSITIONS };
  }
}

/** The merges: for each pair of tokens, its rank and the token that it becomes. */
class MergeTable {
  /** Slots of a hash table with open addressing: left id + 1 (0 if the slot is free), right id, rank, merged id. */
  readonly #slots: Int32Array;
  readonly #mask: number;

  constructor(capacity: number) {
    let size = 16;
    while (size < 2 * capacity) size *= 2;
    this.#slots = new Int32Array(4 * size);
    this.#mask = size - 1;
  }

  /** Sets a pair's rank and result. If it is set again, the last rank applies. */
  set(left: number, right: number, { rank, merged }: { rank: number; merged: number }): void {
    const at = 4 * this.#find(left, right);
    this.#slots[at] = left + 1;
    this.#slots[at + 1] = right;
    this.#slots[at + 2] = rank;
    this.#slots[at + 3] = merged;
  }

  /** The rank of a pair; -1 if it is not merged. */
  getRank(left: number, right: number): number {
    const at = 4 * this.#find(left, right);
    return this.#slots[at] === 0 ? -1 : this.#slots[at + 2]!;
  }

  /** The token that a pair merges to. */
  getMerged(left: number, right: number): number {
    return this.#slots[4 * this.#find(left, right) + 3]!;
  }

  #find(left: number, right: number): number {
    const slots = this.#slots;
    const hash = Math.imul(left + 1, 0x9e3779b1) ^ Math.imul(right + 1, 0x85ebca6b);
    let slot = (hash ^ (hash >>> 15)) & this.#mask;
    while (slots[4 * slot] !== 0) {
      if (slots[4 * slot] === left + 1 && slots[4 * slot + 1] === right) break;
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }
}
