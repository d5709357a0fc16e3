/**
 * A compiled grammar, and its state for one answer.
 *
 * @module
 */

/** What compiling a grammar needs to know about a model's tokens. */
export interface GrammarTokens {
  /** Width of the logits. Token ids are smaller than this. */
  readonly vocabSize: number;
  /** The bytes that a token adds to the text; `undefined` for special tokens, which add none, and for unused ids. */
  getBytes(tokenId: number): Uint8Array | undefined;
  /** Ids of added tokens by their spelling, including special tokens. */
  readonly addedTokens: ReadonlyMap<string, number>;
  /** Tokens that end an answer. */
  readonly endTokenIds: ReadonlySet<number>;
}

/** A grammar compiled for one vocabulary, shared by any number of answers. */
export interface Grammar {
  /** Begins an answer. */
  createMatcher(): GrammarMatcher;
}

/** The state of one answer in its grammar. */
export interface GrammarMatcher {
  /**
   * A mask of the tokens that may come next. Tokens that end an answer are allowed exactly where the text is complete.
   * Token `t` is bit `t % 32` of word `t >> 5`: u32 `[ceil(vocabSize / 32)]`, valid until the next call of `accept`.
   *
   * @throws {HearthError} `invalid_value` when the grammar is too ambiguous to go on.
   */
  readonly mask: Uint32Array;
  /** Advances by a token that the mask allows. */
  accept(tokenId: number): void;
  /** Whether the text is complete and only a token that ends the answer may follow. */
  readonly isFinished: boolean;
}

/** An invalid grammar, or one that is too complex. The message is meant for the client. */
export class GrammarError extends Error {
  override readonly name = "GrammarError";
  /** Path of the fault in the request, if known. */
  readonly param: string | undefined;

  constructor(message: string, param?: string) {
    super(message);
    this.param = param;
  }
}

/** No value is valid for a schema, nor for any schema that requires it. A choice may still have other options. */
export class ImpossibleError extends GrammarError {}

/** Returns what `make` returns, or the result of `otherwise` if a schema is impossible. */
export function orImpossible<T>(make: () => T, otherwise: (error: ImpossibleError) => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof ImpossibleError) return otherwise(error);
    throw error;
  }
}
