/**
 * Operations of a device for speech recognition.
 *
 * @module
 */
import type { LogMelRow, LogMelSpec } from "../../kernels/log_mel/log_mel_spec.ts";
import type { TokenRule, TokenRulesOptions } from "../../kernels/sample/token_rule.ts";
import type { Tensor } from "./ort/ort.ts";

/** Parameters of these operations. */
export interface SpeechOptions {
  readonly spec: LogMelSpec;
  readonly rules: TokenRulesOptions;
  /** Data type of the encoder's input. */
  readonly featuresDtype: "float32" | "float16";
  /** Data type of the decoder's logits. */
  readonly logitsDtype: "float32" | "float16";
  /** Most windows in one call. */
  readonly maxRows: number;
  /** Most recordings whose loudness is kept at once. */
  readonly maxRecordings: number;
}

/** Operations on windows of recordings. Each window is a row. */
export interface SpeechKernels {
  /** Resets a recording's loudness, before another recording gets its index. */
  forget(recording: number): void;
  /** Measures the loudness of the recordings that the rows belong to; at most `maxRows` rows per call. */
  measure(rows: readonly LogMelRow[]): void;
  /**
   * Computes the encoder's input `[rows, mels, frames]`. It is valid until the next call, and not owned by the caller.
   */
  features(rows: readonly LogMelRow[]): Tensor;
  /**
   * Restricts logits `[rows, 1, vocabSize]`, in place, to the tokens that each row's rule allows. Rows without a rule
   * are unchanged.
   */
  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void;
  dispose(): void;
}
