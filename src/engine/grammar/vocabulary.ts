/**
 * A model's tokens in tries over their bytes, so that the tokens that a grammar allows are found without testing each.
 *
 * Most tokens are plain: whole characters that a JSON string may contain unescaped. Inside strings, where most of an
 * answer is generated, all plain tokens are allowed, or all up to some length. The rest of the vocabulary is small.
 *
 * @module
 */
import type { Frontier, Frontiers } from "./frontier.ts";
import type { GrammarTokens } from "./grammar.ts";
import { ANY_TOKEN } from "./rules.ts";

/** Tokens with more characters than this are treated like tokens that are not plain. */
const MAX_PLAIN_CHARS = 64;

interface VocabularyParts {
  readonly tokens: GrammarTokens;
  readonly plain: TokenTrie;
  readonly others: TokenTrie;
  /** Plain tokens by their exact number of characters. */
  readonly byLength: readonly (readonly number[])[];
}

export class Vocabulary {
  readonly tokens: GrammarTokens;
  /** Number of words in a mask. */
  readonly numWords: number;
  readonly #plain: TokenTrie;
  readonly #others: TokenTrie;
  /** For each number of characters, the mask of the plain tokens that have at most as many. */
  readonly #plainUpTo: readonly Uint32Array[];
  readonly #special: readonly number[];

  private constructor(parts: VocabularyParts) {
    const { tokens, byLength } = parts;
    this.tokens = tokens;
    this.numWords = Math.ceil(tokens.vocabSize / 32);
    this.#plain = parts.plain;
    this.#others = parts.others;
    const sum = new Uint32Array(this.numWords);
    this.#plainUpTo = byLength.map((ids) => {
      setBits(sum, ids);
      return sum.slice();
    });
    this.#special = [...tokens.addedTokens.values()].filter((id) =>
      tokens.getBytes(id) === undefined && !tokens.endTokenIds.has(id)
    );
  }

  /**
   * Reads a model's tokens, yielding between slices: a large vocabulary takes a second, and the thread has other work.
   */
  static *read(tokens: GrammarTokens): Chunked<Vocabulary> {
    const plain: [number, Uint8Array][] = [];
    const others: [number, Uint8Array][] = [];
    const byLength = Array.from({ length: MAX_PLAIN_CHARS + 1 }, (): number[] => []);
    for (let id = 0; id < tokens.vocabSize; id++) {
      if (id % TOKENS_PER_CHUNK === 0) yield;
      const bytes = tokens.getBytes(id);
      if (bytes === undefined || bytes.length === 0 || tokens.endTokenIds.has(id)) continue;
      const length = countPlainChars(bytes);
      if (length !== undefined && length <= MAX_PLAIN_CHARS) {
        plain.push([id, bytes]);
        byLength[length]!.push(id);
      } else others.push([id, bytes]);
    }
    return new Vocabulary({
      tokens,
      byLength,
      plain: yield* TokenTrie.build(plain, tokens.vocabSize),
      others: yield* TokenTrie.build(others, tokens.vocabSize),
    });
  }

  /** A mask of the tokens that may follow: u32 `[numWords]`. */
  getMask(frontiers: Frontiers, frontier: Frontier): Uint32Array {
    const step = (from: Frontier, byte: number) => frontiers.step(from, byte);
    const numChars = countPlainSteps(frontiers, frontier);
    const mask = numChars === undefined
      ? new Uint32Array(this.numWords)
      : this.#plainUpTo[numChars]!.slice();
    if (numChars === undefined) this.#plain.mark(frontier, step, mask);
    this.#others.mark(frontier, step, mask);
    for (const { tokenId } of frontier.tokens) {
      setBits(mask, tokenId === ANY_TOKEN ? this.#special : [tokenId]);
    }
    if (frontier.canEnd) setBits(mask, this.tokens.endTokenIds);
    return mask;
  }
}

function setBits(mask: Uint32Array, ids: Iterable<number>): void {
  for (const id of ids) mask[id >>> 5]! |= 1 << (id & 31);
}

/** Number of characters, if all are complete and may appear unescaped in a JSON string. */
function countPlainChars(bytes: Uint8Array): number | undefined {
  let count = 0;
  for (let i = 0; i < bytes.length; count++) {
    const byte = bytes[i]!;
    if (byte < 0x20 || byte === 0x22 || byte === 0x5c) return undefined;
    if (byte < 0x80) {
      i++;
      continue;
    }
    const range = LEADS.find(({ lead }) => lead === byte);
    const second = bytes[i + 1] ?? 0;
    if (range === undefined || second < range.from || second > range.to) return undefined;
    const end = i + 2 + range.rest;
    for (i += 2; i < end; i++) if (((bytes[i] ?? 0) & 0xc0) !== 0x80) return undefined;
  }
  return count;
}

/** Counts how many plain characters may follow; `undefined` if that depends on which characters they are. */
function countPlainSteps(frontiers: Frontiers, start: Frontier): number | undefined {
  let frontier = start;
  for (let count = 0; count < MAX_PLAIN_CHARS; count++) {
    const next = plainStep(frontiers, frontier);
    if (next === undefined) return undefined;
    if (next === null) return count;
    if (next === frontier) return MAX_PLAIN_CHARS;
    frontier = next;
  }
  return MAX_PLAIN_CHARS;
}

/** First bytes of multi-byte characters, with the range of the second byte and the number of bytes after that. */
const LEADS = [
  ...Array.from({ length: 30 }, (_, i) => ({ lead: 0xc2 + i, from: 0x80, to: 0xbf, rest: 0 })),
  ...Array.from({ length: 16 }, (_, i) => ({
    lead: 0xe0 + i,
    from: i === 0 ? 0xa0 : 0x80,
    to: i === 13 ? 0x9f : 0xbf,
    rest: 1,
  })),
  ...Array.from({ length: 5 }, (_, i) => ({
    lead: 0xf0 + i,
    from: i === 0 ? 0x90 : 0x80,
    to: i === 4 ? 0x8f : 0xbf,
    rest: 2,
  })),
];

/** Computes the frontier after any plain character; `undefined` if it is not the same for all. */
function plainStep(frontiers: Frontiers, frontier: Frontier): Frontier | null | undefined {
  const target = frontiers.step(frontier, 0x20);
  for (let byte = 0x21; byte < 0x80; byte++) {
    if (byte === 0x22 || byte === 0x5c) continue;
    if (frontiers.step(frontier, byte) !== target) return undefined;
  }
  const seen = new Set<string>();
  for (const { lead, from, to, rest } of LEADS) {
    const inside = frontiers.step(frontier, lead);
    // First bytes of one class that have the same range after them lead to the same frontier.
    const key = `${frontier.classes.of[lead]},${from},${to},${rest}`;
    if (seen.has(key)) continue;
    seen.add(key);
    if (!leadsTo(frontiers, inside, { from, to, rest, target })) return undefined;
  }
  return target;
}

function leadsTo(
  frontiers: Frontiers,
  inside: Frontier | null,
  { from, to, rest, target }: { from: number; to: number; rest: number; target: Frontier | null },
): boolean {
  if (inside === null) return target === null;
  const seen = new Set<number>();
  for (let byte = from; byte <= to; byte++) {
    const index = inside.classes.of[byte]!;
    if (seen.has(index)) continue;
    seen.add(index);
    const next = frontiers.step(inside, byte);
    if (rest === 0) {
      if (next !== target) return false;
    } else if (!leadsTo(frontiers, next, { from: 0x80, to: 0xbf, rest: rest - 1, target })) {
      return false;
    }
  }
  return true;
}

/** Work that pauses wherever it yields. */
export type Chunked<Result> = Generator<void, Result, void>;

/** Tokens processed between two yields, which takes a fraction of a millisecond. */
const TOKENS_PER_CHUNK = 128;

type Token = readonly [id: number, bytes: Uint8Array];

class TokenTrie {
  /** For each node, a token that ends there, and for each token, another one with the same bytes; -1 for none. */
  readonly #tokens: Int32Array;
  readonly #sameAs: Int32Array;
  /** For each node: its byte, its depth (from 1), and the node after its subtree. */
  readonly #bytes: Uint8Array;
  readonly #depths: Uint16Array;
  readonly #ends: Int32Array;
  readonly #states: unknown[] = [];

  private constructor(numNodes: number, vocabSize: number) {
    this.#tokens = new Int32Array(numNodes).fill(-1);
    this.#sameAs = new Int32Array(vocabSize).fill(-1);
    this.#bytes = new Uint8Array(numNodes);
    this.#depths = new Uint16Array(numNodes);
    this.#ends = new Int32Array(numNodes);
  }

  /** Builds the trie. @param tokens tokens with non-empty bytes and distinct ids. */
  static *build(tokens: readonly Token[], vocabSize: number): Chunked<TokenTrie> {
    const sorted = yield* sortTokens(tokens);
    let numNodes = 0;
    for (const [i, [, bytes]] of sorted.entries()) {
      if (i % TOKENS_PER_CHUNK === 0) yield;
      numNodes += bytes.length - countShared(bytes, sorted[i - 1]?.[1]);
    }
    const trie = new TokenTrie(numNodes, vocabSize);
    const path: number[] = [];
    let node = 0;
    for (const [i, [id, bytes]] of sorted.entries()) {
      if (i % TOKENS_PER_CHUNK === 0) yield;
      const shared = countShared(bytes, sorted[i - 1]?.[1]);
      for (const closed of path.splice(shared)) trie.#ends[closed] = node;
      for (let depth = shared; depth < bytes.length; depth++) {
        trie.#bytes[node] = bytes[depth]!;
        trie.#depths[node] = depth + 1;
        path.push(node++);
      }
      const last = path.at(-1)!;
      trie.#sameAs[id] = trie.#tokens[last]!;
      trie.#tokens[last] = id;
    }
    for (const closed of path) trie.#ends[closed] = node;
    return trie;
  }

  /**
   * Sets the bits of all tokens whose bytes lead to a state.
   *
   * @param step returns the state after a byte, or `null`.
   * @param mask u32 `[ceil(vocabSize / 32)]`.
   */
  mark<State>(
    start: State,
    step: (state: State, byte: number) => State | null,
    mask: Uint32Array,
  ): void {
    const states = this.#states as State[];
    states[0] = start;
    const numNodes = this.#bytes.length;
    for (let node = 0; node < numNodes;) {
      const depth = this.#depths[node]!;
      const state = step(states[depth - 1]!, this.#bytes[node]!);
      if (state === null) {
        node = this.#ends[node]!;
        continue;
      }
      states[depth] = state;
      for (let id = this.#tokens[node]!; id >= 0; id = this.#sameAs[id]!) {
        mask[id >>> 5]! |= 1 << (id & 31);
      }
      node++;
    }
    states.length = 0;
  }
}

/** Sorts tokens by their bytes. Yields after each group with the same first two bytes. */
function* sortTokens(tokens: readonly Token[]): Chunked<Token[]> {
  const groups = new Map<number, { token: Token; key: string }[]>();
  for (const [i, token] of tokens.entries()) {
    if (i % TOKENS_PER_CHUNK === 0) yield;
    const [first = 0, second = -1] = token[1];
    // Strings with one character per byte are compared faster than arrays.
    const keyed = { token, key: String.fromCharCode(...token[1]) };
    const group = groups.get(first * 257 + second + 1);
    if (group === undefined) groups.set(first * 257 + second + 1, [keyed]);
    else group.push(keyed);
  }
  const sorted: Token[] = [];
  for (const prefix of [...groups.keys()].sort((a, b) => a - b)) {
    yield;
    const group = groups.get(prefix)!.sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
    for (const { token } of group) sorted.push(token);
  }
  return sorted;
}

function countShared(a: Uint8Array, b: Uint8Array | undefined): number {
  const most = Math.min(a.length, b?.length ?? 0);
  let length = 0;
  while (length < most && a[length] === b![length]) length++;
  return length;
}
