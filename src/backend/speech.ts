/**
 * What speech recognition needs of a device besides sessions and a sampler.
 *
 * @module
 */
import type { LogMelRow, LogMelSpec } from "../../kernels/log_mel_spec.ts";
import type { TokenRule, TokenRulesOptions } from "../../kernels/token_rule.ts";
import type { Tensor } from "../onnx/ort.ts";

/** What they are made for. */
export interface SpeechOptions {
  readonly spec: LogMelSpec;
  readonly rules: TokenRulesOptions;
  /** Type of the encoder's input. */
  readonly featuresDtype: "float32" | "float16";
  /** Type of the decoder's logits. */
  readonly logitsDtype: "float32" | "float16";
  /** Most windows in one call. */
  readonly maxRows: number;
  /** Most recordings whose loudness is remembered at a time. */
  readonly maxRecordings: number;
}

/** Work on windows of recordings, each a row. */
export interface SpeechKernels {
  /** Forgets how loud a recording is, before another takes its index. */
  forget(recording: number): void;
  /** Learns how loud the rows' recordings are, one row at most `maxRows` per call. */
  measure(rows: readonly LogMelRow[]): void;
  /** The encoder's input `[rows, mels, frames]`: it stands until the next call, and is not the caller's. */
  features(rows: readonly LogMelRow[]): Tensor;
  /** Leaves of logits `[rows, 1, vocabSize]` the tokens that each row's rule allows, in place; without one, all. */
  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void;
  /** Copies rows of a tensor along its first axis; the copy is the caller's. */
  takeRows(tensor: Tensor, rows: readonly number[]): Tensor;
  dispose(): void;
}
