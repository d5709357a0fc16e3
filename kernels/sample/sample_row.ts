/**
 * The sampler's input and result for one row of logits: shared by the `sample` kernel, its CPU reference and everything
 * above them.
 *
 * @module
 */

/** Parameters for choosing the next token of one sequence. All values have been validated. */
export interface SamplingParams {
  /** 0 means greedy: the exact argmax, with the lowest token id among equals. */
  readonly temperature: number;
  /** Keep the `topK` most likely tokens; 0 keeps all. */
  readonly topK: number;
  /** Keep the smallest set of most likely tokens whose probability reaches `topP`; 1 keeps all. */
  readonly topP: number;
  /** Keep tokens at least `minP` times as likely as the most likely one; 0 keeps all. */
  readonly minP: number;
  /**
   * Keep tokens whose logit is at most this many standard deviations of all logits below the largest; 0 or absent keeps
   * all.
   */
  readonly topNSigma?: number | undefined;
  /** Subtracted from a token's logit for each time it occurs in the completion. */
  readonly frequencyPenalty: number;
  /** Subtracted once from the logit of every token that occurs in the completion. */
  readonly presencePenalty: number;
  /** Divides positive logits of tokens in prompt or completion, and multiplies negative ones; 1 turns it off. */
  readonly repetitionPenalty: number;
  /** Number of most recent tokens of prompt and completion that the repetition penalty applies to; all if absent. */
  readonly repetitionWindow?: number | undefined;
  /** Seed of this sequence's random stream, an unsigned 32-bit integer. */
  readonly seed: number;
}

/** Parameters that always choose the most likely token, without filters or penalties. */
export const GREEDY: SamplingParams = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  seed: 0,
};

/**
 * Tokens of a row whose logits change before sampling, each at most once, as a structure of arrays. The first `length`
 * entries are valid; the owner reuses the arrays between steps.
 */
export interface TokenAdjustments {
  readonly length: number;
  /** u32 token ids. */
  readonly tokenIds: Uint32Array;
  /** Number of times that each token occurs in the completion. */
  readonly completionCounts: Uint32Array;
  /**
   * 1 if the repetition penalty applies, since the token occurs in prompt or completion (within the window); else 0.
   */
  readonly inContext: Uint32Array;
  /** Added to the logit after the penalties. */
  readonly bias: Float32Array;
}

/** One row of logits to sample from. */
export interface SampleRow {
  readonly params: SamplingParams;
  /** Index within its completion of the token to choose: the counter of the random stream. */
  readonly tokenIndex: number;
  /** Penalties and biases by token; absent if there are none. */
  readonly adjustments?: TokenAdjustments | undefined;
  /** Token `t` is allowed if bit `t` of word `t >> 5` is set. u32 `[ceil(vocabSize / 32)]`. */
  readonly mask?: Uint32Array | undefined;
  /** Whisper's rules for the row, if they are applied before sampling. */
  readonly rule?: TokenRule | undefined;
  /** Number of most likely tokens to report with their log-probabilities, 0 to 20; if absent, no log-probabilities. */
  readonly topLogprobs?: number | undefined;
}

/** A chosen token. Log-probabilities are the model's among allowed tokens, before penalties, bias and temperature. */
export interface SampledToken {
  readonly tokenId: number;
  /** Valid only if the row's `topLogprobs` is set. */
  readonly logprob: number;
  /** Most likely first; as many as requested, or all that are allowed. */
  readonly top: readonly { readonly tokenId: number; readonly logprob: number }[];
}

/** Whisper's rules for a row: which tokens may be chosen next. */
export interface TokenRule {
  /** Whether plain text may follow. */
  readonly allowsText: boolean;
  /** Whether the end may follow. */
  readonly allowsEnd: boolean;
  /** The first and the last timestamp token that may follow; none if the first is larger. */
  readonly firstTimestamp: number;
  readonly lastTimestamp: number;
}

/** The classes of a model's tokens, for {@linkcode TokenRule}. */
export interface TokenRulesOptions {
  readonly vocabSize: number;
  readonly endToken: number;
  /** The first timestamp token; all after it are timestamps. */
  readonly timestampsStart: number;
  /**
   * Token `t` is plain text that may be chosen if bit `t % 32` of word `t >> 5` is set. u32 `[ceil(vocabSize / 32)]`.
   */
  readonly plainTokens: Uint32Array<ArrayBuffer>;
}

/**
 * The logit of a forbidden token, by the logits' type. After adding to it or dividing it, it is still finite or becomes
 * -infinity.
 */
export const LOWEST_LOGIT = { f32: -3.4028234e38, f16: -65504 } as const;

/** Thrown when all tokens of some rows are masked out, or their logits are NaN or -infinity. */
export class NothingToSampleError extends Error {
  override readonly name = "NothingToSampleError";
  /** Indices in the call of the rows that have no token to choose. */
  readonly rows: readonly number[];

  constructor(rows: readonly number[]) {
    super(
      `No token can be sampled for row ${rows.join(", ")}: each logit is NaN or -infinity, ` +
        "or the token mask and the biases exclude it.",
    );
    this.rows = rows;
  }
}

/** Collects the tokens of a step that is sampled in several parts, and its rows that allow no token. */
export class SampledTokens {
  readonly #tokens: SampledToken[] = [];
  readonly #empty: number[] = [];
  #numRows = 0;

  /** Adds a part with `numRows` rows. */
  add(numRows: number, sample: () => readonly SampledToken[]): void {
    try {
      this.#tokens.push(...sample());
    } catch (error) {
      if (!(error instanceof NothingToSampleError)) throw error;
      for (const row of error.rows) this.#empty.push(this.#numRows + row);
    }
    this.#numRows += numRows;
  }

  /** Returns all tokens. @throws {NothingToSampleError} when a row of any part allows no token. */
  finish(): SampledToken[] {
    if (this.#empty.length > 0) throw new NothingToSampleError(this.#empty);
    return this.#tokens;
  }
}
