/**
 * Whisper's rules for one row of logits: shared by the `token_rules` kernel, its CPU reference and their callers.
 *
 * @module
 */

/** Which tokens may be chosen next. */
export interface TokenRule {
  /** Whether plain text may follow. */
  readonly allowsText: boolean;
  /** Whether the end may follow. */
  readonly allowsEnd: boolean;
  /** The first and the last timestamp token that may follow; none if the first is larger. */
  readonly firstTimestamp: number;
  readonly lastTimestamp: number;
}

/** The classes of a model's tokens. */
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
