/**
 * Speech recognition's operations of a device.
 *
 * @module
 */
import type { LogMelRow, LogMelSpec } from "../../kernels/log_mel/log_mel_spec.ts";
import type { TokenRule, TokenRulesOptions } from "../../kernels/sample/token_rule.ts";
import type { Tensor } from "./ort/ort.ts";

/** Their parameters. */
export interface SpeechOptions {
  readonly spec: LogMelSpec;
  readonly rules: TokenRulesOptions;
  /** Type of the encoder's input. */
  readonly featuresDtype: "float32" | "float16";
  /** Type of the decoder's logits. */
  readonly logitsDtype: "float32" | "float16";
  /** Most windows in one call. */
  readonly maxRows: number;
  /** Most recordings whose loudness is kept at once. */
  readonly maxRecordings: number;
}

/** Operations on windows of recordings, each a row. */
export interface SpeechKernels {
  /** Resets a recording's loudness, before another takes its index. */
  forget(recording: number): void;
  /** Measures the loudness of the rows' recordings, one row at most `maxRows` per call. */
  measure(rows: readonly LogMelRow[]): void;
  /** The encoder's input `[rows, mels, frames]`: valid until the next call, not owned by the caller. */
  features(rows: readonly LogMelRow[]): Tensor;
  /**
   * Masks logits `[rows, 1, vocabSize]` in place to the tokens that each row's rule allows; rows without a rule are
   * unchanged.
   */
  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void;
  dispose(): void;
}
