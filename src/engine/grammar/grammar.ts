/**
 * A compiled grammar, and its state for one answer.
 *
 * @module
 */

/** What a grammar needs to know of a model's tokens. */
export interface GrammarTokens {
  /** Width of the logits; ids from 0 up. */
  readonly vocabSize: number;
  /** The bytes that a token adds to the text; `undefined` for special tokens, which add none, and for ids without a token. */
  getBytes(tokenId: number): Uint8Array | undefined;
  /** Ids of added tokens by their spelling, those included that are no part of the text. */
  readonly addedTokens: ReadonlyMap<string, number>;
  /** Tokens that end an answer. */
  readonly endTokenIds: ReadonlySet<number>;
}

/** Compiled for one vocabulary; shared by any number of answers. */
export interface Grammar {
  /** Begins an answer. */
  createMatcher(): GrammarMatcher;
}

/** The state of one answer in its grammar. */
export interface GrammarMatcher {
  /**
   * The tokens that may come next. Tokens that end an answer are among them exactly where the text is complete. Bit `t
   * % 32` of word `t >> 5`, u32 `[ceil(vocabSize / 32)]`; valid until the next call of `accept`.
   *
   * @throws {HearthError} `invalid_value` when the grammar is too ambiguous to go on.
   */
  readonly mask: Uint32Array;
  /** Takes a token that the mask allowed. */
  accept(tokenId: number): void;
  /** Whether the text is complete, and no token but one that ends the answer may follow. */
  readonly isFinished: boolean;
}

/** An invalid grammar, or one that is too complex; the message is meant for the client. */
export class GrammarError extends Error {
  override readonly name = "GrammarError";
  /** Path of the fault in the request, if known. */
  readonly param: string | undefined;

  constructor(message: string, param?: string) {
    super(message);
    this.param = param;
  }
}

/** No value is valid for a schema, nor for any that it is a part of; but the others of a choice may be met. */
export class ImpossibleError extends GrammarError {}

/** What `make` returns; `otherwise` where it finds a schema impossible. */
export function orImpossible<T>(make: () => T, otherwise: (error: ImpossibleError) => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof ImpossibleError) return otherwise(error);
    throw error;
  }
}
