/**
 * Whisper's rules for one row of logits: shared by the `token_rules` kernel, its CPU reference and their callers.
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

/** The classes of a model's tokens. */
export interface TokenRulesOptions {
  readonly vocabSize: number;
  readonly endToken: number;
  /** The first timestamp token; all after it are timestamps. */
  readonly timestampsStart: number;
  /** Bit `t % 32` of word `t >> 5` set: token `t` is plain text that may be chosen. u32 `[ceil(vocabSize / 32)]`. */
  readonly plainTokens: Uint32Array<ArrayBuffer>;
}

/**
 * The logit of a forbidden token, by the logits' type: it stays finite, or becomes -infinity, when added to or divided.
 */
export const LOWEST_LOGIT = { f32: -3.4028234e38, f16: -65504 } as const;
