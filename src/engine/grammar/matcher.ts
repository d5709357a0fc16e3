import type { Frontier, Frontiers } from "./frontier.ts";
import type { Grammar, GrammarMatcher } from "./grammar.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Memory for masks that are cached for a vocabulary, over all its grammars. */
const MAX_MASK_BYTES = 64 * 2 ** 20;

/** Caches the masks of frontiers and evicts the least recently used. */
export class MaskCache {
  readonly #masks = new Map<Frontier, Uint32Array>();
  readonly #maxMasks: number;

  constructor(numWords: number) {
    this.#maxMasks = Math.max(16, Math.floor(MAX_MASK_BYTES / (4 * numWords)));
  }

  get(frontier: Frontier, make: () => Uint32Array): Uint32Array {
    const mask = this.#masks.get(frontier) ?? make();
    this.#masks.delete(frontier);
    this.#masks.set(frontier, mask);
    if (this.#masks.size > this.#maxMasks) this.#masks.delete(this.#masks.keys().next().value!);
    return mask;
  }
}

/** A grammar for one vocabulary. */
export class CompiledGrammar implements Grammar {
  readonly #frontiers: Frontiers;
  readonly #vocabulary: Vocabulary;
  readonly #masks: MaskCache;

  constructor(frontiers: Frontiers, { vocabulary, masks }: {
    readonly vocabulary: Vocabulary;
    readonly masks: MaskCache;
  }) {
    this.#frontiers = frontiers;
    this.#vocabulary = vocabulary;
    this.#masks = masks;
  }

  createMatcher(): GrammarMatcher {
    return new Matcher(this);
  }

  get start(): Frontier {
    return this.#frontiers.start;
  }

  /** A mask of the tokens that may follow. */
  getMask(frontier: Frontier): Uint32Array {
    this.#frontiers.beginWork();
    return this.#masks.get(frontier, () => this.#vocabulary.getMask(this.#frontiers, frontier));
  }

  /** Returns the frontier after a token. @throws {RangeError} when the mask does not allow the token. */
  advance(frontier: Frontier, tokenId: number): Frontier {
    this.#frontiers.beginWork();
    const bytes = this.#vocabulary.tokens.getBytes(tokenId);
    let next: Frontier | null = frontier;
    if (bytes === undefined) next = this.#frontiers.stepToken(frontier, tokenId);
    for (const byte of bytes ?? []) next = next && this.#frontiers.step(next, byte);
    if (next === null) throw new RangeError(`The grammar does not allow token ${tokenId}.`);
    return next;
  }

  isEnd(tokenId: number): boolean {
    return this.#vocabulary.tokens.endTokenIds.has(tokenId);
  }
}

class Matcher implements GrammarMatcher {
  readonly #grammar: CompiledGrammar;
  #frontier: Frontier;
  #mask: Uint32Array | undefined;

  constructor(grammar: CompiledGrammar) {
    this.#grammar = grammar;
    this.#frontier = grammar.start;
  }

  get mask(): Uint32Array {
    return this.#mask ??= this.#grammar.getMask(this.#frontier);
  }

  accept(tokenId: number): void {
    if (this.#grammar.isEnd(tokenId)) return;
    this.#frontier = this.#grammar.advance(this.#frontier, tokenId);
    this.#mask = undefined;
  }

  get isFinished(): boolean {
    const { canEnd, threads, tokens } = this.#frontier;
    return canEnd && threads.length === 0 && tokens.length === 0;
  }
}
