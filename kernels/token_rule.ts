/**
 * What Whisper's rules say of one row of logits: shared by the `token_rules` kernel, its CPU reference and those who
 * make the rules.
 *
 * @module
 */

/** The tokens among which the next one is chosen. */
export interface TokenRule {
  /** Whether plain text may follow. */
  readonly allowsText: boolean;
  /** Whether the end may follow. */
  readonly allowsEnd: boolean;
  /** The first and the last timestamp token that may follow; none where the first is larger. */
  readonly firstTimestamp: number;
  readonly lastTimestamp: number;
}

/** How a model's vocabulary is divided. */
export interface TokenRulesOptions {
  readonly vocabSize: number;
  readonly endToken: number;
  /** From this token on, all are timestamps. */
  readonly timestampsStart: number;
  /** Bit `t % 32` of word `t >> 5` set: token `t` is plain text that may be chosen. u32 `[ceil(vocabSize / 32)]`. */
  readonly plainTokens: Uint32Array<ArrayBuffer>;
}

/** What a forbidden token's logit becomes, by the logits' type: sums and temperatures leave it finite or nothing. */
export const LOWEST_LOGIT = { f32: -3.4028234e38, f16: -65504 } as const;
