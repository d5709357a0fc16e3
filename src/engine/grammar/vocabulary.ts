/**
 * A model's tokens, ordered so that those that a grammar allows are found without testing each.
 *
 * Most tokens are plain: whole characters that a JSON string may contain unescaped. Inside strings, where most of an
 * answer is generated, all plain tokens are allowed, or all up to some length. The rest of the vocabulary is small.
 *
 * @module
 */
import type { Frontier, Frontiers } from "./frontier.ts";
import type { GrammarTokens } from "./grammar.ts";
import { ANY_TOKEN } from "./network.ts";
import { type Chunked, TOKENS_PER_CHUNK, TokenTrie } from "./token_trie.ts";

/** Plain tokens with more characters than this are tested one by one. */
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
  /** Masks of the plain tokens with at most so many characters, by that number. */
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

/** How many plain characters may follow, whichever they are; `undefined` if that depends on which. */
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

/** First bytes of multi-byte characters, with the range of the second byte. */
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

/** The frontier after any plain character; `undefined` if it is not the same for all. */
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
