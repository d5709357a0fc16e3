/**
 * Kernels for speech recognition on the CPU: the reference implementations.
 *
 * @module
 */
import { ReferenceLogMel } from "../../../kernels/log_mel/log_mel_reference.ts";
import type { LogMelRow } from "../../../kernels/log_mel/log_mel_spec.ts";
import type { TokenRule } from "../../../kernels/sample/token_rule.ts";
import { applyTokenRules } from "../../../kernels/sample/token_rules_reference.ts";
import { Tensor } from "../ort/ort.ts";
import type { SpeechKernels, SpeechOptions } from "../speech.ts";

type Floats = Float32Array<ArrayBuffer> | Float16Array<ArrayBuffer>;

export class CpuSpeech implements SpeechKernels {
  readonly #options: SpeechOptions;
  readonly #logMel: ReferenceLogMel;
  readonly #features: Float32Array<ArrayBuffer>;

  constructor(options: SpeechOptions) {
    const { spec, maxRows, maxRecordings } = options;
    this.#options = options;
    this.#logMel = new ReferenceLogMel(spec, maxRecordings);
    this.#features = new Float32Array(maxRows * spec.mels * spec.frames);
  }

  forget(recording: number): void {
    this.#logMel.forget(recording);
  }

  measure(rows: readonly LogMelRow[]): void {
    for (const row of rows) this.#logMel.measure(row);
  }

  features(rows: readonly LogMelRow[]): Tensor {
    const { spec: { mels, frames }, featuresDtype } = this.#options;
    const features = this.#features.subarray(0, rows.length * mels * frames);
    this.#logMel.compute(rows, features);
    const dims = [rows.length, mels, frames];
    if (featuresDtype === "float32") return new Tensor("float32", features, dims);
    return new Tensor("float16", new Uint16Array(Float16Array.from(features).buffer), dims);
  }

  restrict(logits: Tensor, rules: readonly (TokenRule | undefined)[]): void {
    applyTokenRules(logits.data as Floats, rules, this.#options.rules);
  }

  dispose(): void {}
}
