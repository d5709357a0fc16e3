/**
 * Compiles grammars for one model, caches them, and masks tokens while an answer is generated.
 *
 * @module
 */
import { HearthError } from "../../base/errors.ts";
import { BusyThread } from "../../base/timing.ts";
import { Expressions } from "./expressions.ts";
import { type Frontier, Frontiers } from "./frontier.ts";
import {
  type Grammar,
  GrammarError,
  type GrammarMatcher,
  type GrammarSpec,
  type GrammarTokens,
} from "./grammar.ts";
import { Rules } from "./rules.ts";
import { buildSpec } from "./spec_phrase.ts";
import { type Chunked, Vocabulary } from "./vocabulary.ts";

/** Maximum number of grammars that are cached, and of characters of their sources. */
const MAX_KEPT = 64;
const MAX_KEPT_CHARS = 2 ** 22;

/**
 * Longest time between two yields while the vocabulary is read. Each segment of an engine step may have to wait so
 * long.
 */
const MAX_SLICE_MS = 1;

/** Compiles grammars for one vocabulary, which is read by `prepare` or when the first grammar is compiled. */
export class GrammarCompiler {
  readonly #readTokens: () => GrammarTokens;
  #reading: Chunked<Vocabulary> | undefined;
  #preparing: Promise<void> | undefined;
  #vocabulary: Vocabulary | undefined;
  #masks: MaskCache | undefined;
  /** Grammars by their sources, least recently used first. */
  readonly #kept = new Map<string, Grammar>();
  #numKeptChars = 0;

  constructor(readTokens: () => GrammarTokens) {
    this.#readTokens = readTokens;
  }

  /** Whether the vocabulary has been read. */
  get isPrepared(): boolean {
    return this.#vocabulary !== undefined;
  }

  /** Reads the vocabulary and yields each millisecond, so that the thread can do other work in between. */
  prepare(): Promise<void> {
    return this.#preparing ??= (async () => {
      const thread = new BusyThread();
      while (this.#read(MAX_SLICE_MS) === undefined) await thread.yield();
    })();
  }

  /** Reads the vocabulary for `maxMs`. @returns the vocabulary, once it is complete. */
  #read(maxMs = Infinity): Vocabulary | undefined {
    this.#reading ??= Vocabulary.read(this.#readTokens());
    const end = performance.now() + maxMs;
    while (this.#vocabulary === undefined && performance.now() < end) {
      const { done, value } = this.#reading.next();
      if (done) this.#vocabulary = value;
    }
    return this.#vocabulary;
  }

  /**
   * Compiles a grammar, or returns the cached one. Reads the rest of the vocabulary if {@linkcode prepare} has not.
   *
   * @throws {HearthError} `invalid_value`, with the path in the request, when the grammar cannot be enforced or is too
   * complex.
   */
  compile(spec: GrammarSpec): Grammar {
    const key = toKey(spec);
    let grammar = this.#kept.get(key);
    if (grammar === undefined) grammar = this.#make(spec);
    else this.#forget(key);
    this.#kept.set(key, grammar);
    this.#numKeptChars += key.length;
    while (this.#kept.size > MAX_KEPT || this.#numKeptChars > MAX_KEPT_CHARS) {
      this.#forget(this.#kept.keys().next().value!);
    }
    return grammar;
  }

  #forget(key: string): void {
    this.#kept.delete(key);
    this.#numKeptChars -= key.length;
  }

  #make(spec: GrammarSpec): Grammar {
    const vocabulary = this.#read()!;
    this.#masks ??= new MaskCache(vocabulary.numWords);
    try {
      const expressions = new Expressions();
      expressions.beginWork();
      const rules = new Rules(expressions);
      const root = rules.declare();
      rules.define(root, buildSpec(spec, rules, vocabulary.tokens));
      const grammar = new CompiledGrammar(new Frontiers(rules.build(root)), {
        vocabulary,
        masks: this.#masks,
      });
      // The first mask is computed now, so that a grammar that would fail at its first token is refused.
      grammar.getMask(grammar.start);
      return grammar;
    } catch (error) {
      throw toRefusal(error, getParam(spec));
    }
  }
}

/** Makes the cache key: equal only for equal grammars. A document that several parts refer to is written once. */
function toKey(spec: GrammarSpec): string {
  const documents = new Map<unknown, number>();
  return JSON.stringify(spec, (name, value) => {
    if (name !== "within" || typeof value !== "object" || value === null) return value;
    const known = documents.get(value);
    if (known === undefined) documents.set(value, documents.size);
    return known ?? value;
  });
}

/** Converts an error about an invalid grammar to the error for the client. Other errors are returned unchanged. */
export function toRefusal(error: unknown, fallbackParam?: string): unknown {
  const isTooDeep = error instanceof RangeError && /call stack/.test(error.message);
  if (!(error instanceof GrammarError) && !isTooDeep) return error;
  const param = (error instanceof GrammarError ? error.param : undefined) ?? fallbackParam;
  const reason = isTooDeep ? "it is nested too deeply" : error.message;
  const subject = param === undefined ? "The grammar" : param;
  return new HearthError("invalid_value", `${subject}: ${reason}.`, { param, cause: error });
}

/** Finds the path of a grammar in the request, or else the path of its first part that has one. */
function getParam(spec: GrammarSpec): string | undefined {
  if ("param" in spec) return spec.param;
  switch (spec.kind) {
    case "sequence":
      return spec.items.map(getParam).find((param) => param !== undefined);
    case "any_of":
      return spec.options.map(getParam).find((param) => param !== undefined);
    case "list":
      return spec.items.map((each) => getParam(each.grammar)).find((param) => param !== undefined);
    case "repeat":
      return getParam(spec.item);
    case "lazy":
      return spec.triggers.map(({ then }) => getParam(then)).find((param) => param !== undefined);
    default:
      return undefined;
  }
}

/** Memory for cached masks, for all grammars of a vocabulary together. */
const MAX_MASK_BYTES = 64 * 2 ** 20;

/** Caches the masks of frontiers and evicts the least recently used. */
class MaskCache {
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
class CompiledGrammar implements Grammar {
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
